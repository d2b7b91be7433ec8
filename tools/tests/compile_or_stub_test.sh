#!/bin/sh
# cmake/compile_or_stub.sh: a file that is saved while it is compiled is compiled again by the next build, and so is one whose
# error was in a header, once the header is fixed.
#   compile_or_stub_test.sh COMPILER SOURCE
set -eu
compiler=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "compile_or_stub_test.sh: $1" >&2
  cat ./*.d >&2
  exit 1
}
# A stub that compiles, whatever the answer is; and a compiler in whose middle someone saves.
printf '#!/bin/sh\n[ "$1" = --stub ] && echo "int answer() { return 0; }" > "$6"\n' > skeleton
printf '#!/bin/sh\n"%s" "$@" || code=$?\n[ ! -e saves ] || { rm saves; touch answer.cpp; [ ! -e answer.o ] || touch answer.o; }\nexit ${code:-0}\n' "$compiler" > slow
chmod +x skeleton slow
echo '_Z6answerv' > required
# build: as Ninja does: is the object older than something it depends on, or is that not there?
compile() { sh "$source/cmake/compile_or_stub.sh" 1.1 ./skeleton solution.cpp required -- ./slow -MD -MT answer.o -MF answer.d -o answer.o -c answer.cpp > log 2>&1 || { cat log; fail 'it should give an object'; }; }
stale() {
  for file in $(sed 's/^answer.o://; s/\\$//' answer.d); do
    if [ ! -e "$file" ] || [ "$file" -nt answer.o ]; then return 0; fi
  done
  return 1
}
is_stale() { stale || fail "$1"; }
is_current() { if stale; then fail "$1"; fi; }

echo 'int answer() { return 42; }' > answer.cpp
compile
is_current 'nothing has changed'
touch saves
compile
is_stale 'the file was saved while it was compiled'
echo 'int answer() { return 42 }' > answer.cpp
touch saves
compile
is_stale 'a file with an error was saved while it was compiled'
compile
is_current 'the same error again'

printf '#include "mine.hpp"\nint answer() { return kAnswer; }\n' > answer.cpp
compile
is_stale 'the header is not there'
echo 'constexpr int kAnswer = 42' > mine.hpp
compile
is_current 'the header has an error'
grep -q 'mine.hpp' answer.d || fail 'it depends on the header'
echo 'constexpr int kAnswer = 42;' > mine.hpp
is_stale 'the header is mended'
compile
is_current 'all is well'
[ ! -e answer.o.log ] || fail 'the answer compiles'

rm answer.cpp
compile
grep -q 'answer.cpp:0: error: the file is missing' answer.o.log || fail 'it does not say that the file is missing'
echo PASS

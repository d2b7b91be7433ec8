#!/bin/sh
# lab_test.sh SOURCE: what ./lab says while it builds, and what it does where that fails, in a tree that is made up, with a
# cmake that prints what it is told. Its clock goes on by six seconds whenever somebody looks.
set -eu
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/bin" "$folder/tools" "$folder/build/default/tools" "$folder/build/default/mine"
cp "$source/lab" "$folder/lab"
touch "$folder/build/default/build.ninja"
echo 0 > "$folder/clock"
made_up() { # made_up FILE 'shell text'
  printf '#!/bin/sh\n%s\n' "$2" > "$folder/$1"
  chmod +x "$folder/$1"
}
made_up tools/setup.sh 'exit 0'
made_up build/default/tools/lab 'echo "handed over: $*"'
made_up bin/date "read -r now < $folder/clock; echo \$((now + 6)) > $folder/clock; echo \$now"
made_up bin/cmake "echo \"cmake \$*\" >> $folder/ran; cat $folder/prints; exit \"\$(cat $folder/code)\""
made_up bin/ctest "echo \"ctest \$*\" >> $folder/ran"

fail() {
  echo "lab_test: $1" >&2
  sed 's/^/    /' "$folder/said" >&2
  exit 1
}
says() { grep -q -- "$1" "$folder/said" || fail "it should say '$1'"; }
ran() { grep -qx -- "$1" "$folder/ran" || fail "it should run $1"; }
# lab CODE ARGUMENTS…: with a cmake that ends with CODE. What was said is in said, the exit code in code.
lab() {
  echo "$1" > "$folder/code"
  shift
  rm -f "$folder/ran"
  status=0
  env PATH="$folder/bin:$PATH" sh "$folder/lab" "$@" > "$folder/said" 2>&1 || status=$?
}
ends_with() { [ "$status" -eq "$1" ] || fail "the exit code is $status, not $1"; }

# How far a build is: without a terminal a line now and then, of Ninja's lines those that count.
printf '[1/4] one\nremark\n[2/4] two\n[3/4] three\n[4/4] four\n' > "$folder/prints"
lab 0 list
ends_with 0
says '^building ./lab itself \[2/4\], about [0-9]* s left$'
says '^handed over: list$'
[ "$(grep -c '^building' "$folder/said")" -lt 4 ] || fail 'not every step is worth a line'
lab 0
ends_with 0

# Ninja counts from 0 where it runs CMake again before it builds.
printf '[0/1] Re-running CMake...\n[0/2] Re-checking globbed directories...\n[1/3] one\n[2/3] two\n' > "$folder/prints"
lab 0 list
ends_with 0
says '^building ./lab itself \[2/3\]'
says '^handed over: list$'

# A tree's first check builds what all checks link as well.
ran "cmake --build $folder/build/default --target lab_tool"
mv "$folder/build/default/tools/lab" "$folder/kept"
lab 0
ends_with 0
says '^Nothing is built yet'
[ ! -e "$folder/ran" ] || fail 'who only looks should not wait for a build'
lab 0 check 21.0
ran "cmake --build $folder/build/default --target lab_tool checks_need"
mv "$folder/kept" "$folder/build/default/tools/lab"

# A failure is shown, and nothing is handed over.
echo 'error: no such thing' > "$folder/prints"
lab 1 list
ends_with 1
says 'error: no such thing'
if grep -q 'handed over' "$folder/said"; then fail 'there is nothing to hand over to'; fi

# What does not compile costs its own tests: the others run, and the end is not good.
lab 1 test -R suite.x
ends_with 1
says 'something does not compile'
ran "ctest --preset default -j $(nproc) -R suite.x"
lab 0 test --all -R suite.x
ran 'cmake --build --preset all -- -k 20'
ran "ctest --preset all -j $(nproc) -R suite.x"
lab 0 test
ends_with 0

# Two at a time: one waits, and says for whom.
: > "$folder/prints"
(
  flock 9
  echo 'process 7 is building 21.2' > "$folder/build/default/mine/lock"
  touch "$folder/locked"
  until grep -q waiting "$folder/said" 2> /dev/null; do sleep 0.05; done
) 9>> "$folder/build/default/mine/lock" &
until [ -e "$folder/locked" ]; do sleep 0.05; done
lab 0 list
ends_with 0
says '^waiting: process 7 is building 21.2'
says '^handed over: list$'

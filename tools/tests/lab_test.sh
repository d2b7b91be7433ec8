#!/bin/sh
# lab_test.sh SOURCE: messages of ./lab while it builds, and its behaviour where that fails, in a made-up tree with a fake
# cmake that prints its instructions. The clock advances by six seconds whenever it is read.
set -eu
source=$1
# shellcheck source=tools/tests/testing.sh
. "$source/tools/tests/testing.sh"
mkdir -p "$folder/bin" "$folder/tools" "$folder/build/default/tools" "$folder/build/default/mine"
cp "$source/lab" "$folder/lab"
cp "$source/tools/alone.sh" "$source/tools/probes.sh" "$source/tools/progress.sh" "$source/tools/whose_error.sh" \
  "$source/tools/build_given.sh" "$folder/tools/"
mkdir "$folder/cmake" "$folder/common"
touch "$folder/CMakeLists.txt"
touch "$folder/build/default/build.ninja"
echo 0 > "$folder/clock"
made_up tools/setup.sh 'exit 0'
made_up build/default/tools/lab "[ \"\$1\" != is-current ] || exec test ! -e $folder/changed
echo \"handed over: \$*\""
made_up bin/date "read -r now < $folder/clock; echo \$((now + 6)) > $folder/clock; echo \$now"
made_up bin/cmake "echo \"cmake \$*\" >> $folder/ran; cat $folder/prints
[ ! -e $folder/slow ] || exec sh $folder/slow
exit \"\$(cat $folder/code)\""
made_up bin/ctest "[ \"\$1\" != --help ] || { echo ' -R <regex>, --tests-regex <regex>'; exit; }
echo \"ctest \$*\" >> $folder/ran"

ran() { grep -qx -- "$1" "$folder/ran" || fail "it should run $1"; }
# lab CODE ARGUMENTS…: with a cmake that ends with CODE. What was said is in said, the exit code in code.
lab() {
  echo "$1" > "$folder/code"
  shift
  rm -f "$folder/ran"
  status=0
  env PATH="$folder/bin:$PATH" sh "$folder/lab" "$@" > "$folder/said" 2>&1 || status=$?
}
idle() { [ ! -e "$folder/ran" ] || fail "it should build nothing: $(cat "$folder/ran")"; }
out_of_date() { rm -f "$folder/build/default/mine/current/lab_tool"; }
ends_with() { [ "$status" -eq "$1" ] || fail "the exit code is $status, not $1"; }

# Prints how far a build is: without a terminal a line now and then, of Ninja's lines those that count.
printf '[1/4] one\nremark\n[2/4] two\n[3/4] three\n[4/4] four\n' > "$folder/prints"
lab 0 list
ends_with 0
says '^building ./lab itself \[2/4\], about [0-9]* s left$'
says '^handed over: list$'
[ "$(grep -c '^building' "$folder/said")" -lt 4 ] || fail 'not every step is worth a line'
lab 0
ends_with 0
lab 0 next
says '^handed over: $'

# A long step is not silent. The made-up `sleep` of ten seconds takes a tenth of one.
made_up bin/sleep "exec $(command -v sleep) 0.1"
echo "exec $(command -v sleep) 1" > "$folder/slow"
printf '[1/4] one\n' > "$folder/prints"
out_of_date
lab 0 list
ends_with 0
says '^building ./lab itself \[1/4\], [0-9]* s so far$'
if grep -q progress "$folder/build/lab.log"; then fail 'the log is the build'"'"'s own'; fi
rm "$folder/slow"

# Up to date, it is not built again; and it is, once a file has changed.
lab 0 hint 21.2
ends_with 0
idle
says '^handed over: hint 21.2$'
touch "$folder/changed"
lab 0 hint 21.2
ran "cmake --build $folder/build/default --target lab_tool"
rm "$folder/changed"

# Ninja counts from 0 where it runs CMake again before it builds.
printf '[0/1] Re-running CMake...\n[0/2] Re-checking globbed directories...\n[1/3] one\n[2/3] two\n' > "$folder/prints"
out_of_date
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
lab 0 next
ends_with 0
says '^Nothing is built yet'
idle
lab 0 check 21.0
ran "cmake --build $folder/build/default --target lab_tool checks_need"
mv "$folder/kept" "$folder/build/default/tools/lab"

# A failure is shown, and nothing is handed over.
echo 'error: no such thing' > "$folder/prints"
out_of_date
lab 1 list
ends_with 1
says 'error: no such thing'
if grep -q 'handed over' "$folder/said"; then fail 'there is nothing to hand over to'; fi

# A file that is given and does not compile is named, with how to restore it; so CTest's mine.build says it.
given='^common/slice.hpp does not compile. It is not an answer of yours'
printf "[1/2] one\nIn file included from a.cpp:1:\n%s/common/slice.hpp:7:3: error: expected ';'\n" "$folder" > "$folder/prints"
out_of_date
lab 1 list
ends_with 1
says "$given"
says 'git checkout -- common/slice.hpp restores'
for code in 0 1; do
  echo "$code" > "$folder/code"
  status=0
  sh "$folder/tools/build_given.sh" "$folder/bin/cmake" "$folder/build/default" a b > "$folder/said" 2>&1 || status=$?
  ends_with "$code"
  says "slice.hpp:7:3: error: expected ';'"
  [ "$code" = 0 ] || says "$given"
done
ran "cmake --build $folder/build/default --target a b"

# A test that does not compile costs its own tests: the others run, and the end is not good.
lab 1 test -R suite.x
ends_with 1
says 'something does not compile'
ran "ctest --preset default -j $(nproc) -R suite.x"
lab 0 test --all -R suite.x
ran 'cmake --build --preset all -- -k 20'
ran "ctest --preset all -j $(nproc) -R suite.x"
lab 0 test
ends_with 0

# An option that ctest does not have, before anything is built; doctor has none.
lab 0 test --nosuch
ends_with 2
says "'--nosuch' is not an option"
idle
lab 0 doctor --nosuch
ends_with 2
says "'--nosuch' is not an option"

# Open MPI 5 has no version to say where HOME is not set.
cp "$source/tools/doctor.sh" "$folder/tools/"
made_up bin/mpicxx 'exit 0'
made_up bin/mpirun 'echo "${HOME:+mpirun (}Open MPI${HOME:+) 5.0.7}"'
env -u HOME PATH="$folder/bin:$PATH" sh "$folder/lab" doctor > "$folder/said" 2>&1 || :
says '^ok  *MPI .*: mpirun (Open MPI) 5\.0\.7$'
rm "$folder/bin/mpicxx" "$folder/bin/mpirun" "$folder/tools/doctor.sh"

# Without a GPU that is said before minutes of building for one; processes may be for other hosts.
made_up bin/nvcc 'exit 0'
mkdir -p "$folder/build/cuda/tools"
cp "$folder/build/default/tools/lab" "$folder/build/cuda/tools/lab"
touch "$folder/build/cuda/build.ninja"
if ! (. "$source/tools/probes.sh"; may_have_gpu); then
  for backend in cuda nccl; do
    lab 0 train --backend $backend
    ends_with 2
    says 'no CUDA device on this computer'
    idle
  done
fi
lab 0 train --backend nccl --nodes 2
says '^handed over: train --backend nccl --nodes 2$'

# A TMPDIR that is not there; closed output.
TMPDIR=/nosuch lab 0 report
ends_with 2
says 'TMPDIR is /nosuch'
env PATH="$folder/bin:$PATH" sh "$folder/lab" list >&- 2>&- || fail 'it should end well where nobody listens'

# From a checkout that cannot be written: built programs run.
read_only() { # read_only ARGUMENTS…: as lab; false where nobody may mount
  # shellcheck disable=SC2016  # the inner shell's
  $unshare sh -c 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && PATH=$0/bin:$PATH exec sh "$0/lab" "$@"' "$folder" "$@" > "$said" 2>&1
}
unshare=''
for way in 'unshare -m' 'unshare -rm'; do
  # shellcheck disable=SC2016
  $way sh -c 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"' "$folder" 2> /dev/null && unshare=$way && break
done
said=$(mktemp)
trap 'rm -rf "$folder" "$said"' EXIT
if [ -n "$unshare" ]; then
  : > "$folder/prints"
  out_of_date
  lab 0 list
  read_only list || fail "it should run: $(cat "$said")"
  [ "$(cat "$said")" = 'handed over: list' ] || fail "it should say nothing of its own: $(cat "$said")"
  touch "$folder/changed"
  read_only list || fail "it should run: $(cat "$said")"
  grep -q 'older than its sources' "$said" || fail "it should say that it is old: $(cat "$said")"
  rm "$folder/changed"
else
  echo 'not tested: a checkout that cannot be written (mounting is not permitted)'
fi

# While another process builds, nobody waits who needs no build.
hold_lock() { # until `released` is there
  rm -f "$folder/locked" "$folder/released"
  (
    flock 9
    echo 'process 7 is building 21.2' > "$folder/build/default/mine/lock"
    touch "$folder/locked"
    until [ -e "$folder/released" ]; do sleep 0.05; done
  ) 9>> "$folder/build/default/mine/lock" &
  until [ -e "$folder/locked" ]; do sleep 0.05; done
}
out_of_date
lab 0 list
hold_lock
lab 0 hint 21.2
touch "$folder/released"
wait
says '^handed over: hint 21.2$'
if grep -q waiting "$folder/said"; then fail 'a hint should wait for nobody'; fi

# Two at a time: one waits, and says for whom.
: > "$folder/prints"
rm -f "$folder/locked"
out_of_date
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

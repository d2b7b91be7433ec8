#!/bin/sh
# Tests .ci/run in a repository with stages that are made up: two run at a time, each in a clone of its own; one that
# fails is named, and nothing begins after it; and a run that is stopped leaves nothing that runs.
# shellcheck disable=SC2016 # text of scripts
set -eu
run=$PWD/.ci/run
. tools/tests/testing.sh
repository=$folder/repository
mkdir -p "$repository/.ci" "$folder/bin" "$folder/tmp"
cp "$run" "$repository/.ci/run"
echo build/ > "$repository/.gitignore"

cores() { made_up bin/nproc "echo $1"; }
# stages: those on standard input, a NAME and its script on each line.
stages() {
  rm -f "$folder"/at.*
  while read -r name script; do printf '%s\n' "touch $folder/at.$name; $script" > "$repository/.ci/$name.sh"; done
  : > "$repository/.ci/mine.sh" # the second half of `students`
  git -C "$repository" init -q
  git -C "$repository" add .
  git -C "$repository" -c user.name=a -c user.email=a@localhost commit -q -m stages
}
# ends CODE STAGE…: .ci/run of these must end with that exit code, and its clones be gone.
ends() {
  code=$1 status=0
  shift
  env PATH="$folder/bin:$PATH" TMPDIR="$folder/tmp" sh "$repository/.ci/run" "$@" > "$folder/said" 2>&1 || status=$?
  [ "$status" -eq "$code" ] || fail "$*: the exit code is $status, not $code"
  [ -z "$(ls "$folder/tmp")" ] || fail "$*: $(ls "$folder/tmp") is left"
}
began() { [ -e "$folder/at.$1" ] || fail "$1 should have begun"; }
wait_for() { for _ in $(seq 1000); do [ ! -e "$1" ] || return 0; sleep 0.01; done; fail "there is no $1"; }

# Two wait for each other, each in a clone of its own; the third comes after them.
meets="for _ in \$(seq 1000); do [ ! -e $folder/at.OTHER ] || break; sleep 0.01; done; [ -e $folder/at.OTHER ] || exit 1"
stages << S
handout touch build/mine; $(echo "$meets" | sed 's/OTHER/cmake_page/g')
cmake_page $(echo "$meets" | sed 's/OTHER/handout/g'); sleep 0.2; [ ! -e build/mine ] || exit 1; echo whole
students echo third
S
cores 2
ends 0 handout cmake_page students clean
began students
says '^== handout: passed'
says '^whole$'
says '^all stages passed: handout cmake_page students clean$'

# One core: one after the other. What fails ends the run, also where it is not a stage's last command.
stages << S
cmake_page echo second
S
cores 1
printf '#!/bin/sh\n[ "$1" != .ci/changed.py ]\n' > "$folder/bin/python3"
chmod +x "$folder/bin/python3"
ends 1 outputs cmake_page
says '^== outputs: FAILED'
[ ! -e "$folder/at.cmake_page" ] || fail 'nothing begins after a failure'
! grep -q 'all stages passed' "$folder/said" || fail 'they did not'

# Two cores: the stage that runs next to it ends, and the third does not begin. Anything left in a clone is found.
stages << S
handout $(echo "$meets" | sed 's/OTHER/cmake_page/g'); exit 3
cmake_page sleep 1; echo beside
students echo third
S
cores 2
ends 1 handout cmake_page students
says '^== handout: FAILED'
says '^beside$'
[ ! -e "$folder/at.students" ] || fail 'nothing begins after a failure'
stages << S
handout echo it
cmake_page touch left
S
ends 1 handout cmake_page clean
says 'left$'
says '^== clean: FAILED'

# Stopped: nothing that it started continues.
stages << S
handout echo so far; sh -c 'echo \$\$ > $folder/at.child; exec sleep 100'
cmake_page touch $folder/at.second; sleep 100
S
env PATH="$folder/bin:$PATH" TMPDIR="$folder/tmp" sh "$repository/.ci/run" handout cmake_page > "$folder/said" 2>&1 &
job=$! status=0
wait_for "$folder/at.child"
wait_for "$folder/at.second"
kill -TERM $job
wait $job || status=$?
[ $status -eq 143 ] || fail "stopped, the exit code is $status"
says '^so far$'
[ -z "$(ls "$folder/tmp")" ] || fail 'a clone is left'
goes_on() { case $(ps -o stat= -p "$(cat "$folder/at.child")") in '' | Z*) return 1 ;; esac; }
for _ in $(seq 100); do ! goes_on || sleep 0.01; done
! goes_on || fail 'a child of a stage goes on'
echo 'two stages at a time: passed'

#!/bin/sh
# Input that cannot be meant is rejected at once, before anything is built or started: one sentence, and exit code 2.
#   bad_input_test.sh LAB MPI_LAUNCHER BENCHMARK         BENCHMARK: on MPI; "" without
lab=$1
launcher=$2
benchmark=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

refused() { # words that are said, command…
  words=$1
  shift
  timeout 100 "$@" >"$work/out" 2>&1
  code=$?
  [ $code -eq 2 ] && grep -q -- "$words" "$work/out" && [ "$(wc -l <"$work/out")" -le 2 ] && return
  echo "FAILED: $* ends with $code and says:"
  sed 's/^/    /' "$work/out"
  failed=1
}

for timeout in 0 -1 nan 1e9 ''; do
  refused timeout "$lab" check 21.2 --timeout "$timeout"
  refused timeout "$lab" check 21.2 --backend sim "--timeout=$timeout"
done
# An empty word that no option takes, as of a variable that is not set: the parser of options looked for an end.
refused "argument 1 is empty" "$lab" train '' -x
refused "argument 3 is empty" "$lab" train --ranks 2 '' -x
refused "unknown command 'chek': did you mean 'check', '.*' or '.*'? ./lab help all" "$lab" help chek
refused "unknown command 'nosuch'. The nearest are '.*', '.*' and '.*'. ./lab help all" "$lab" help nosuch
refused "argument 1 is empty" "$lab" check ''
refused "argument 2 is empty" "$lab" list 21 ''
refused "--seed needs a value" "$lab" check 21.2 --seed ''
refused "--zero needs a value" "$lab" train --zero ''
refused 'lab handout: FILE.zip is missing, the archive to write: \./lab handout FILE\.zip --weeks …$' "$lab" handout
refused 'lab handout: --weeks is missing, .*: \./lab handout FILE\.zip --weeks …$' "$lab" handout "$work/week21.zip"
refused 'lab class: FOLDER is missing, .*: \./lab class FOLDER$' "$lab" class
refused 'lab grade: SUBMISSION is missing, .*: \./lab grade SUBMISSION$' "$lab" grade
refused "not a submission" "$lab" grade /
TMPDIR=/nosuch refused "TMPDIR is /nosuch" "$lab" grade "$work" --only 21.1 --out "$work/results.json"
for script in local srun; do
  refused timeout sh "${launcher%/*}/$script.sh" -n 2 --timeout 0 true
done
refused "for train and bench" "$lab" view check 21.2 --predicted
refused "add --backend mpi" "$lab" view train --predicted
LOCKSTEP_MACHINES=$work refused "run ./lab calibrate" "$lab" view train --backend mpi --predicted
if [ -x "$benchmark" ]; then
  refused "there is no run to animate" "$lab" view bench memory
  refused "did you mean 'all_reduce'" "$lab" view bench al_reduce
  refused "at most .* start on a host" "$lab" check 21.2 --backend mpi --ranks 1000000
  refused "at most .* start on a host" "$lab" train --backend mpi --ranks 1000000
  refused "at most .* start on a host" "$lab" bench all_reduce --backend mpi --ranks 2,1000000
  for scale in 0 -1 nan inf 1e30; do
    refused "scale" sh "$launcher" -n 2 "$benchmark" --emulate laptop --scale $scale
  done
fi
# Closed output is no crash.
for closed in '>&-' '>&- 2>&-' '2>&- >/dev/null'; do
  sh -c "'$lab' list $closed" 2>"$work/out"
  [ $? -le 2 ] || { echo "FAILED: list $closed crashes"; failed=1; }
done
# A command that hits a limit of the size of files leaves nothing.
mkdir "$work/limited"
limited=$( (ulimit -f 0 && "${lab%/tools/lab}/programs/plan_sim" --flops --model gpt3-175b --json "$work/limited/flops.json" 2>&1; echo "ends with $?"))
case $limited in
  *"cannot write $work/limited/flops.json: File too large"*"ends with 2") ;;
  *) echo "FAILED: a file at its limit: $limited"; failed=1 ;;
esac
[ -z "$(ls "$work/limited")" ] || { echo "FAILED: a file at its limit leaves $(ls "$work/limited")"; failed=1; }
# An answer that does not run has no page, and that is said.
if [ ! -e "${lab%/build/*}/prebuilt" ] && "$lab" list 21.1 | grep -q '^  21\.1 .*  -$'; then
  "$lab" view check 21.1 >"$work/out" 2>&1
  grep -q '^lab view: nothing was recorded, so there is no page' "$work/out" || { cat "$work/out"; echo 'FAILED: view check says nothing of the page'; failed=1; }
fi
[ $failed -eq 0 ] && echo PASS
exit $failed

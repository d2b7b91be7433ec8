#!/bin/sh
# What cannot be meant is refused at once, before anything is built or started: one sentence, and exit code 2.
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
[ $failed -eq 0 ] && echo PASS
exit $failed

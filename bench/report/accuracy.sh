#!/bin/sh
# bench/report/accuracy.sh [--runs N] [--ranks P] [--build DIRECTORY] [--output DIRECTORY]
#
# Measures how far predictions on this computer's MPI processes are off. It calibrates, then runs the benchmarks that
# are predicted from it, three times over, and prints the median of |predicted / measured − 1| of each, over all sizes
# and runs; of a pipeline's bubble the median distance in points. Rows in which something else ran (`quiet`:
# docs/use/output.md) are counted apart. For a computer that does nothing else: about ten minutes on two cores, the
# build apart. The JSON files stay in the output folder, and ./lab report --from draws them.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/default out=$root/outputs/accuracy runs=3 ranks=2
usage() { echo "accuracy: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage "$1 needs a value"
  case $1 in
    --runs) runs=$2 ;;
    --ranks) ranks=$2 ;;
    --build) build=$2 ;;
    --output) out=$2 ;;
    *) usage "unknown option '$1'. Known: --runs, --ranks, --build, --output." ;;
  esac
  shift 2
done
case $runs$ranks in *[!0-9]*) usage "--runs and --ranks are whole numbers" ;; esac
[ -f "$build/build.ninja" ] || usage "$build is not configured: ./lab setup"
cmake --build "$build" --target bench_calibrate_mpi bench_all_reduce_mpi bench_ddp_mpi bench_tp_mpi bench_pipeline_mpi > /dev/null
mkdir -p "$out"
rm -f "$out"/*.json
export LOCKSTEP_MACHINES="$out/machine" # the calibration of these runs, and no other
mkdir -p "$LOCKSTEP_MACHINES"

measure() { # measure NAME PROGRAM arguments…
  name=$1 program=$2
  shift 2
  echo "$name"
  sh "$root/launch/mpirun.sh" -n "$ranks" --timeout 900 "$build/programs/bench_${program}_mpi" --ranks "$ranks" "$@" > "$out/$name.log" 2>&1 ||
    { tail -n 3 "$out/$name.log" >&2; exit 1; }
}
for run in $(seq "$runs"); do
  measure "calibrate_$run" calibrate --json "$out/calibrate_$run.json"
  measure "all_reduce_$run" all_reduce --bytes 1KiB:16MiB --algorithm naive,recursive_doubling,rabenseifner,ring,pipelined --json "$out/all_reduce_$run.json"
  measure "ddp_$run" ddp --model small --batch 4 --bucket-bytes 64KiB,512KiB,4MiB --json "$out/ddp_$run.json"
  measure "tp_$run" tp --layers 2 --heads 4 --d-model 128,256 --vocabulary 512 --batch 4 --sequence 128 --dtype fp32 --json "$out/tp_$run.json"
  measure "pipeline_$run" pipeline --schedule gpipe,1f1b --microbatches 1,4,8 --forward-ms 10 --backward-ms 10 --weight-ms 10 \
    --comm-ms 0 --json "$out/pipeline_$run.json"
done
python3 -B "$root/bench/plots/accuracy.py" "$out"

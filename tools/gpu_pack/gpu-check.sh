#!/bin/sh
# Builds, tests and measures Lockstep on a machine with an NVIDIA GPU and no network, in less than ten minutes:
#
#   sh gpu-check.sh [--stages NAME,…] [--budget-seconds N] [--results DIR] [--archive FILE] [--jobs N]
#
# Stages, the most telling first. Each builds what it needs, leaves its results as it goes, and stops none after it:
#   tests       every operation and verb on the GPU
#   benchmarks  a GPT's training step, also in PyTorch where that is; all-reduces
#   attention   that step with our attention and with cuDNN's (LOCKSTEP_ATTENTION)
#   rates       PyTorch's products by shape, attention, copies, and the host's time for an operation
#   labs        all labs' tests on the GPU
#   sanitizer   memory errors and races of the kernels, where compute-sanitizer is
#   pytorch     a larger model's step in PyTorch
# Without --stages all of them. What does not fit into the budget (570 s) is SKIPPED, and said; another call with
# --stages continues there: build and results are kept.
#
# Needs nvcc, cuBLASLt and the CUDA runtime (the toolkit's, or those that PyTorch brought), CMake 3.25, a C++20 compiler,
# and Ninja or make. Nothing is installed, and nothing is written outside this folder, the results (default: results/
# next to this script) and their archive (default: DIR.tar.gz).
# Exit code 0: everything that ran passed; 1: something did not; 2: nothing could be done. Without a GPU it builds, and
# measures nothing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$here/source
third=$here/third_party
build=$here/build
results=$here/results
archive=''
all_stages='tests benchmarks attention rates labs sanitizer pytorch'
stages=$all_stages
budget=570
jobs=''
command="gpu-check.sh${*:+ $*}"

usage() { sed -n '2,21s/^# \{0,1\}//p' "$0"; }
cannot() {
  echo "gpu-check: $*" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in --*=*) option=${1%%=*} value=${1#*=}; shift; set -- "$option" "$value" "$@" ;; esac
  case $1 in
    --results | --archive | --stages | --budget-seconds | --jobs)
      [ -n "${2:-}" ] || cannot "$1 needs a value"
      case $1 in
        --results) results=$2 ;;
        --archive) archive=$2 ;;
        --stages) stages=$(echo "$2" | tr ',' ' ') ;;
        --budget-seconds) budget=$2 ;;
        --jobs) jobs=$2 ;;
      esac
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) cannot "unknown option '$1'; --help names all" ;;
  esac
done
case $budget$jobs in *[!0-9]*) cannot "--budget-seconds and --jobs are whole numbers" ;; esac
for stage in $stages; do
  case " $all_stages " in *" $stage "*) ;; *) cannot "there is no stage '$stage'; known: $all_stages" ;; esac
done
end=$(($(date +%s) + budget))

# shellcheck source=tools/probes.sh
. "$source/tools/probes.sh"
cmake_is_new || cannot "CMake 3.22 or newer is not on PATH"
speaks_cxx20 || cannot "the C++ compiler, '$compiler', is not there or does not know C++20: GCC 11 or newer is needed; CXX names another"
nvcc=$(find_nvcc) || cannot "nvcc is neither on PATH, nor in CUDA_HOME or /usr/local/cuda: this check needs the CUDA toolkit"
if has_program ninja; then generator=Ninja; elif has_program make; then generator='Unix Makefiles'; else cannot "neither ninja nor make is on PATH"; fi
[ "$(uname -m)" = "$(cat "$third/lib/processor.txt")" ] || cannot "the pack was made on $(cat "$third/lib/processor.txt"), this is $(uname -m): pack on the like of this machine"
mkdir -p "$results" || cannot "$results cannot be made"
results=$(cd "$results" && pwd)
archive=${archive:-$results.tar.gz}

# Compilations at a time: one for each core that has 2 GiB of memory.
if [ -z "$jobs" ]; then
  jobs=$(nproc)
  fit=$(awk '/^MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo)
  [ "$jobs" -le "$fit" ] || jobs=$fit
  [ "$jobs" -ge 1 ] || jobs=1
fi

gpu='' gpus=0 capability='' gpu_mib=0 driver=''
if has_gpu; then
  asked() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits | head -n 1; }
  gpu=$(asked name)
  gpus=$(nvidia-smi -L | grep -c '^GPU')
  capability=$(asked compute_cap | tr -d '. ')
  gpu_mib=$(asked memory.total)
  driver=$(asked driver_version)
else
  echo "no CUDA device: this builds, and skips what needs one"
fi
# shellcheck source=tools/gpu_pack/summary.sh
. "$source/tools/gpu_pack/summary.sh"
# shellcheck source=tools/gpu_pack/stages.sh
. "$source/tools/gpu_pack/stages.sh"
about > "$results/about.txt" 2>&1

if configure; then
  for stage in $stages; do "run_$stage"; done
fi
finish

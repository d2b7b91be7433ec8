#!/bin/sh
# Builds, tests and measures Lockstep on a machine with an NVIDIA GPU and no network, in about ten minutes:
#
#   sh gpu-check.sh [--results DIR] [--minutes N] [--jobs N]
#
# Needs the CUDA toolkit, CMake 3.25, a C++20 compiler, and Ninja or make. Nothing is installed, and nothing is written
# outside this folder and the results' (default: results/ beside this script). Exit code 0: everything passed; 1: something
# did not; 2: nothing could be done. Without a GPU it builds, tests what needs none, and measures nothing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$here/source
third=$here/third_party
build=$here/build
results=$here/results
minutes=10
jobs=''

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
  case $1 in
    --results | --minutes | --jobs)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      case $1 in --results) results=$2 ;; --minutes) minutes=$2 ;; --jobs) jobs=$2 ;; esac
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
case $minutes$jobs in *[!0-9]*) usage >&2; exit 2 ;; esac
end=$(($(date +%s) + 60 * minutes))

# shellcheck source=tools/probes.sh
. "$source/tools/probes.sh"
cannot() {
  echo "gpu-check: $*" >&2
  exit 2
}
has_program cmake || cannot "cmake is not on PATH; version 3.25 or newer is needed"
has_program c++ || has_program g++ || cannot "no C++ compiler is on PATH"
nvcc=$(find_nvcc) || cannot "nvcc is neither on PATH, nor in CUDA_HOME or /usr/local/cuda: this check wants the CUDA toolkit"
if has_program ninja; then generator=Ninja; elif has_program make; then generator='Unix Makefiles'; else cannot "neither ninja nor make is on PATH"; fi
[ "$(uname -m)" = "$(cat "$third/lib/processor.txt")" ] || cannot "the pack was made on $(cat "$third/lib/processor.txt"), this is $(uname -m): pack on the like of this machine"
mkdir -p "$results" || cannot "$results cannot be made"
results=$(cd "$results" && pwd)

# As many compilations at a time as there are cores, and 2 GiB of memory for each.
if [ -z "$jobs" ]; then
  jobs=$(nproc)
  fit=$(awk '/^MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo)
  [ "$jobs" -le "$fit" ] || jobs=$fit
  [ "$jobs" -ge 1 ] || jobs=1
fi

gpu='' capability='' gpu_mib=0
if has_gpu; then
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. ')
  gpu_mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -n 1)
else
  echo "no CUDA device: this builds, and skips what needs one"
fi
{
  echo "date      $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  echo "commit    $(cat "$source/commit.txt")"
  echo "GPU       ${gpu:-none}"
  echo "nvcc      $nvcc, $("$nvcc" --version | sed -n 's/.*release \(.*\)/\1/p')"
  echo "compiler  $(c++ --version | head -n 1)"
  echo "cmake     $(cmake --version | head -n 1), $generator, $jobs jobs"
  echo "system    $(uname -srm), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2> /dev/null)"
  echo "processor $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) hardware threads"
  [ -z "$gpu" ] || nvidia-smi
} > "$results/about.txt" 2>&1

failed=0
table="" # lines of the table at the end
note() { table="$table$(printf '%-24s %s' "$1" "$2")
"; }

# stage NAME SECONDS command…: its output into results/NAME.txt, its verdict into the table. The seconds are of ten
# minutes: who gives more minutes in all gives each stage more.
stage() {
  name=$1 limit=$(($2 * minutes / 10))
  shift 2
  begin=$(date +%s)
  left=$((end - begin))
  if [ "$left" -lt 5 ]; then
    note "$name" "SKIPPED ($minutes minutes are over)"
    return 1
  fi
  [ "$limit" -le "$left" ] || limit=$left
  printf '%-24s ' "$name"
  timeout --kill-after=10 "$limit" "$@" > "$results/$name.txt" 2>&1
  code=$?
  verdict='passed in'
  [ $code -eq 0 ] || { verdict='FAILED after'; failed=1; }
  [ $code -ne 124 ] || verdict='TIMEOUT after'
  verdict="$verdict $(($(date +%s) - begin)) s"
  echo "$verdict"
  note "$name" "$verdict"
  [ $code -eq 0 ] || tail -n 15 "$results/$name.txt"
  return $code
}
finish() {
  { printf '\n%s on %s\n' "Lockstep $(cat "$source/commit.txt")" "${gpu:-no GPU}"; printf '%s' "$table"; } | tee "$results/table.txt"
  echo "results: $results"
  exit "$1"
}

# Libraries that Python brings, where the system has none: NCCL.
nccl=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2> /dev/null)
# Every file finds the headers of the pack, also one whose target forgot to ask.
headers="$third/include;$third/src/googletest/include"
set -- -DCMAKE_MODULE_PATH="$third/cmake" -DCMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES="$headers" -DLOCKSTEP_CUDA=ON -DCUDAToolkit_ROOT="$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
[ -z "$nccl" ] || set -- "$@" -DNCCL_ROOT="$nccl"
[ -z "$capability" ] || set -- "$@" -DCMAKE_CUDA_ARCHITECTURES="$capability"
fibers=$third/lib/libboost_context.a
if [ -f "$fibers" ]; then
  set -- "$@" -DBOOST_CONTEXT_LIBRARY="$fibers" -DBOOST_CONTEXT_INCLUDE="$third/include"
else
  set -- "$@" -DLOCKSTEP_FIBERS=threads
fi
export CUDACXX="$nvcc"

stage configure 120 cmake -S "$source" -B "$build" -G "$generator" "$@" || finish 1
sed -n 's/^-- \(lockstep: .*\)/\1/p' "$results/configure.txt"
[ -e "$build/backends/cuda" ] || { echo "there is no CUDA backend in this build; $results/configure.txt says why"; finish 1; }
stage build 480 cmake --build "$build" -j "$jobs" || finish 1

# Each test once. ctest says what was SKIPPED, and why.
tests() { # tests NAME SECONDS ctest's selection…
  name=$1 limit=$2
  shift 2
  stage "$name" "$limit" ctest --test-dir "$build" --output-on-failure --timeout 120 "$@"
  note "" "$(grep 'tests passed' "$results/$name.txt" || echo 'no verdict'); $(grep -c '[*]\{3\}Skipped' "$results/$name.txt") skipped"
}
tests gpu_tests 180 -L gpu
# The pretend GPU has nothing to add where there is a real one. Grading compiles for minutes, and asks no GPU anything.
tests suite 180 -LE "gpu${gpu:+|pretend}" -E '^suite\.grade$' -j "$jobs"

if [ -n "$gpu" ]; then
  programs=$build/programs
  # Memory errors and races of the kernels, where the toolkit brings what finds them.
  sanitizer=$(command -v compute-sanitizer || command -v "$(dirname "$nvcc")/compute-sanitizer")
  for program in "$programs"/arithmetic_test_cuda "$programs"/backend_test_cuda; do
    { [ -n "$sanitizer" ] && [ -x "$program" ]; } || continue
    for tool in memcheck racecheck; do
      stage "${tool}_$(basename "$program")" 60 "$sanitizer" --tool "$tool" --error-exitcode 1 "$program"
    done
  done

  # What the simulator predicts for this GPU, where it knows it.
  case $gpu in *H200*) machine=dgx-h200 ;; *H100*) machine=dgx-h100 ;; *A100*) machine=dgx-a100 ;; *B200*) machine=dgx-b200 ;; *) machine='' ;; esac
  batch=16
  [ "$gpu_mib" -ge 40000 ] || batch=4

  measure() { # measure NAME SECONDS PROGRAM arguments…
    name=$1 limit=$2 program=$3
    shift 3
    [ -x "$programs/$program" ] || { note "$name" "not in this build"; return 1; }
    stage "$name" "$limit" "$programs/$program" "$@" --json "$results/$name.json" --csv "$results/$name.csv"
  }
  # columns FILE NAME…: these columns of a CSV file whose fields hold no commas.
  columns() {
    file=$1
    shift
    awk -F, -v names="$*" 'NR == 1 {n = split(names, wanted, " "); for (i = 1; i <= NF; ++i) at[$i] = i; next}
      {line = ""; for (k = 1; k <= n; ++k) line = line sprintf("%s%s", k > 1 ? "," : "", (wanted[k] in at) ? $at[wanted[k]] : "");
       print line}' "$file"
  }
  vocabulary=50304  # GPT-2's 50257 rounded up to a multiple of 64, as is usual: rows of an odd length are slow everywhere
  measure gpt 150 bench_gpt_cuda --model gpt2-124m,gpt2-355m --vocabulary $vocabulary --batch $batch --sequence 1024 ${machine:+--machine $machine} &&
    columns "$results/gpt.csv" algorithm model tokens_per_second mfu fraction_of_matmul_rate flop_per_second > "$results/gpt.columns"
  [ -z "$machine" ] || measure gpt_predicted 60 bench_gpt_sim --phantom --model gpt2-124m,gpt2-355m --vocabulary $vocabulary --batch $batch --sequence 1024 --machine $machine
  measure all_reduce 120 bench_all_reduce_cuda --ranks 2,4,8 --bytes 1MiB,16MiB,256MiB --samples 15 &&
    columns "$results/all_reduce.csv" algorithm ranks bytes seconds fraction_of_traffic_bound fraction_of_fused_bound > "$results/all_reduce.columns"
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
    for model in gpt2-124m gpt2-355m; do
      stage "pytorch_$model" 120 python3 "$source/bench/pytorch_step.py" --model $model --device cuda --dtype bf16 --batch $batch \
        --sequence 1024 --vocabulary $vocabulary --steps 20 --compile both --json "$results/pytorch_$model.json"
      note "" "$(sed -n 's/^PyTorch.*: \(.*\)/\1/p' "$results/pytorch_$model.txt" | tr '\n' ';')"
    done
  fi

  [ ! -f "$results/gpt.columns" ] || note "" "$(printf '\n%-10s %-10s %12s %7s %11s' GPT model tokens/s MFU 'of matmul')
$(awk -F, '{printf "%-10s %-10s %12.0f %6.1f%% %10.1f%%\n", $1, $2, $3, 100 * $4, 100 * $5}' "$results/gpt.columns")"
  [ ! -f "$results/all_reduce.columns" ] || note "" "$(printf '\n%-12s %5s %10s %10s %9s %9s' all-reduce ranks bytes ms 'of bound' '(fused)')
$(awk -F, '{printf "%-12s %5d %10d %10.3f %8.1f%% %8.1f%%\n", $1, $2, $3, 1e3 * $4, 100 * $5, 100 * $6}' "$results/all_reduce.columns")"
  rm -f "$results"/*.columns
fi
finish $failed

# shellcheck shell=sh disable=SC2154,SC2034
# What gpu-check.sh does, stage by stage. Sourced; the variables without a value here are gpu-check.sh's.
programs=$build/programs
failed=0
left_over=''  # stages that did not fit
launcher=''   # of a benchmark's processes, where it has several

# An interrupted check stops its stage, which `timeout` keeps out of the terminal's reach, and keeps the results so far.
stopped='' running=''
trap 'stopped=yes; [ -z "$running" ] || kill "$running" 2> /dev/null' INT TERM
vocabulary=50304  # GPT-2's 50257 rounded up to a multiple of 64, as is usual: rows of an odd length are slow everywhere
batch=16
[ "$gpu_mib" -ge 40000 ] || batch=4

# The simulator's name of this GPU.
machine() {
  case $gpu in *H200*) echo dgx-h200 ;; *H100*) echo dgx-h100 ;; *A100*) echo dgx-a100 ;; *B200*) echo dgx-b200 ;; esac
}

# CPU seconds of all commands so far. `times` counts for the shell that runs it, so no $(…) here.
cpu_so_far() {
  times > "$results/.times"
  cpu=$(sed -n '2s/[ms]/ /gp' "$results/.times" | awk '{print 60 * $1 + $2 + 60 * $3 + $4}')
  rm -f "$results/.times"
}

# skip NAME WHY: it neither passed nor failed.
skip() {
  printf '%-24s SKIPPED: %s\n' "$1" "$2"
  record "$1" SKIPPED 0 0 "$2"
}

# act NAME SECONDS command…: its output into results/NAME.txt, its verdict into the table; `judge NAME`, where there is
# such a function, says what else is noteworthy. The seconds are its share of ten minutes: who gives more gives each more.
act() {
  [ -z "$stopped" ] || finish
  name=$1 limit=$2
  shift 2
  [ "$budget" -le 600 ] || limit=$((limit * budget / 600))
  begin=$(date +%s)
  left=$((end - begin))
  if [ "$left" -lt 10 ]; then
    case " $left_over " in *" $stage "*) ;; *) left_over="$left_over $stage" ;; esac
    if grep -q "^$name	" "$log" 2> /dev/null; then  # what an earlier call found stays
      printf '%-24s SKIPPED: %s\n' "$name" "the $budget s are over"
    else
      skip "$name" "the $budget s are over"
    fi
    return 1
  fi
  [ "$limit" -le "$left" ] || limit=$left
  printf '%-24s ' "$name"
  cpu_so_far
  before=$cpu
  timeout --kill-after=5 "$limit" "$@" > "$results/$name.txt" 2>&1 &
  running=$!
  wait $running
  code=$?
  [ -z "$stopped" ] || wait $running
  running=''
  cpu_so_far
  note=''
  case $code in
    0) verdict=passed ;;
    77) verdict=SKIPPED note=$(grep -v '^$' "$results/$name.txt" | tail -n 1) ;;
    124 | 137) verdict=TIMEOUT note="cut after $limit s" ;;
    *) verdict=FAILED note="exit code $code" ;;
  esac
  judge
  [ -z "$stopped" ] || verdict=TIMEOUT note=stopped
  case $verdict$name in
    TIMEOUT*check_*) ;;  # its findings count, its progress does not
    FAILED* | TIMEOUT*) failed=1 ;;
  esac
  seconds=$(($(date +%s) - begin))
  echo "$verdict in $seconds s${note:+: $note}"
  record "$name" "$verdict" "$seconds" "$(awk -v a="$cpu" -v b="$before" 'BEGIN {printf "%.1f", a - b}')" "$note"
  [ -z "$stopped" ] || finish
  [ $code -eq 0 ] || [ $code -eq 77 ] || tail -n 15 "$results/$name.txt"
  [ $code -eq 0 ]
}
# Reads the verdict in the last lines of ctest and compute-sanitizer.
judge() {
  file=$results/$name.txt
  case $name in
    *check_*)
      found=$(findings "$file")
      note="$found findings${note:+, }$note"
      [ "$found" -eq 0 ] || verdict=FAILED
      if grep -q 'Device not supported' "$file"; then verdict=SKIPPED note='compute-sanitizer does not support this device'; fi
      ;;
    *tests)
      total=$(sed -n 's/.*tests passed.* out of \([0-9]*\)$/\1/p' "$file")
      skipped=$(grep -c '[*]\{3\}Skipped' "$file")
      fell=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of .*/\1/p' "$file")  # CTest 4 names none where none did
      note="${fell:-0} failed, $skipped skipped of ${total:-no} tests${note:+, }$note"
      [ "$verdict$skipped" != "passed$total" ] || verdict=SKIPPED
      ;;
  esac
}

# Once a build: again only after other options.
configure() {
  headers="$third/include;$third/src/googletest/include"  # for every file, also one whose target forgot to ask
  set -- -G "$generator" -DCMAKE_MODULE_PATH="$third/cmake" -DCMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES="$headers" \
    -DLOCKSTEP_CUDA=ON -DCUDAToolkit_ROOT="$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
  # Libraries that Python brings, where the system has none: NCCL.
  nccl=$(timeout 20 python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2> /dev/null)
  [ -z "$nccl" ] || set -- "$@" -DNCCL_ROOT="$nccl"
  # And cuBLASLt and the CUDA runtime, for a toolkit that is only a compiler; and cuDNN, which few toolkits have.
  cuda_libraries=$(timeout 20 python3 -c 'import glob, nvidia; print(";".join(sorted({f.rsplit("/", 2)[0] for p in nvidia.__path__
    for name in ("cublasLt", "cudart", "cudnn", "nvrtc") for f in glob.glob(f"{p}/*/lib/lib{name}.so*")})))' 2> /dev/null)
  [ -z "$cuda_libraries" ] || set -- "$@" -DLOCKSTEP_CUDA_LIBRARIES="$cuda_libraries"
  [ ! -e "$third/cudnn_frontend" ] || set -- "$@" -DLOCKSTEP_CUDNN_FRONTEND="$third/cudnn_frontend/include"
  # Machine code for the GPU that is there alone; and the fake one has nothing to add to it.
  [ -z "$capability" ] || set -- "$@" -DCMAKE_CUDA_ARCHITECTURES="$capability-real" -DLOCKSTEP_FAKE_GPU=OFF
  if [ -f "$third/lib/libboost_context.a" ]; then
    set -- "$@" -DBOOST_CONTEXT_LIBRARY="$third/lib/libboost_context.a" -DBOOST_CONTEXT_INCLUDE="$third/include"
  else
    set -- "$@" -DLOCKSTEP_FIBERS=threads
  fi
  export CUDACXX="$nvcc"
  if [ "$(cat "$build/configured.txt" 2> /dev/null)" != "$*" ]; then
    rm -rf "$build"
    stage=configure
    act configure 120 cmake -S "$source" -B "$build" "$@" || return 1
    sed -n 's/^-- \(lockstep: .*\)/\1/p' "$results/configure.txt"
    [ -e "$build/backends/cuda" ] || { echo "there is no CUDA backend in this build; $results/configure.txt says why"; failed=1; return 1; }
    echo "$*" > "$build/configured.txt"
  fi
}

# compile NAME SECONDS [PATTERN]: the targets that match, or everything, even if one fails. Nothing if done before.
compile() {
  [ ! -e "$build/compiled.$1" ] || return 0
  keep_going=-k
  [ "$generator" != Ninja ] || keep_going='-k 0'
  chosen=all
  [ -z "${3:-}" ] || chosen=$(cmake --build "$build" --target help | sed -n 's/^\.\.\. //; s/: phony$//; s/ .*//; /[/:]/!p' | grep -E "^($3)\$" | sort -u)
  # shellcheck disable=SC2086  # lists of words
  act "$1" "$2" cmake --build "$build" -j "$jobs" --target $chosen -- $keep_going && touch "$build/compiled.$1"
}
run_ctest() { # run_ctest NAME SECONDS ctest's selection…
  name=$1 limit=$2
  shift 2
  act "$name" "$limit" ctest --test-dir "$build" --output-on-failure --no-tests=error --timeout 200 "$@"
}

compile_first() { compile build 400 'lab_tool|(arithmetic|backend)_test_(cuda|nccl)|bench_(gpt|all_reduce)_(cuda|nccl)|bench_gpt_sim'; }

run_tests() {
  compile_first
  run_ctest arithmetic_tests 120 -R '^gpu\.(arithmetic|attention\.cudnn)$'
  run_ctest backend_tests 120 -R '^suite\.backend\.(cuda|nccl)$'
  run_ctest small_bench_tests 60 -R '^gpu\.bench'
}

# measure NAME SECONDS PROGRAM arguments…: a benchmark's rows, as JSON and CSV.
measure() {
  name=$1 limit=$2 program=$3
  shift 3
  [ -x "$programs/$program" ] || { skip "$name" "$program is not in this build"; return 1; }
  # shellcheck disable=SC2086  # a list of words
  act "$name" "$limit" $launcher "$programs/$program" "$@" --json "$results/$name.json" --csv "$results/$name.csv"
}
with_pytorch() { # with_pytorch NAME
  [ -n "${torch:-}" ] || torch=$(timeout 60 python3 -c 'import torch; print(torch.cuda.is_available())' 2> /dev/null)
  [ "$torch" = True ] || { skip "$1" 'no PyTorch that sees the GPU'; return 1; }
}
pytorch_step() { # pytorch_step MODEL: eager and compiled
  with_pytorch "pytorch_$1" || return 1
  act "pytorch_$1" 150 python3 "$source/bench/programs/pytorch_step.py" --model "$1" --device cuda --dtype bf16 --batch $batch \
    --sequence 1024 --vocabulary $vocabulary --steps 20 --compile both --json "$results/pytorch_$1.json"
}
on_a_gpu() { # on_a_gpu STAGE
  [ -n "$gpu" ] || { skip "$1" 'no CUDA device'; return 1; }
}

run_benchmarks() {
  on_a_gpu benchmarks || return 0
  compile_first
  known=$(machine)
  # shellcheck disable=SC2086  # lists of words
  set -- --vocabulary $vocabulary --batch $batch --sequence 1024 ${known:+--machine $known}
  measure gpt_gpt2-124m 90 bench_gpt_cuda --model gpt2-124m --operations 20 "$@"
  measure all_reduce_4 90 bench_all_reduce_cuda --ranks 4 --bytes 1MiB,16MiB,256MiB --samples 15
  pytorch_step gpt2-124m
  measure gpt_gpt2-355m 90 bench_gpt_cuda --model gpt2-355m "$@"
  measure all_reduce_2_8 90 bench_all_reduce_cuda --ranks 2,8 --bytes 1MiB,16MiB,256MiB --samples 15
  [ -z "$known" ] || measure predicted 60 bench_gpt_sim --phantom --model gpt2-124m,gpt2-355m "$@"
  if [ "$gpus" -gt 1 ]; then
    launcher="sh $source/launch/local.sh -n $gpus --timeout 110"
    measure nccl_all_reduce 120 bench_all_reduce_nccl --bytes 1MiB,16MiB,256MiB --samples 15
    launcher=''
  fi
}

# Our attention, and cuDNN's: two steps of the same program.
run_attention() {
  on_a_gpu attention || return 0
  compile_first
  grep -q '^-- lockstep: attention by cuDNN' "$results/configure.txt" 2> /dev/null ||
    { skip attention "$(sed -n 's/^-- lockstep: \(attention by our kernels alone.*\)/\1/p' "$results/configure.txt" 2> /dev/null)"; return 0; }
  known=$(machine)
  for who in ours cudnn; do
    # shellcheck disable=SC2086  # a list of words
    LOCKSTEP_ATTENTION=$who measure attention_$who 60 bench_gpt_cuda --model gpt2-124m --operations 20 --vocabulary $vocabulary --batch $batch --sequence 1024 ${known:+--machine $known}
  done
}

run_rates() {
  on_a_gpu rates && with_pytorch rates && act rates 120 python3 "$source/tools/gpu_pack/rates.py" "$results/rates.jsonl"
}

run_labs() {
  compile build_labs 300 'lab_tool|reference\.week[0-9]*_(cuda|nccl)'
  run_ctest labs_tests 180 -L gpu -R '^suite\.week' -j 4
}

# A few tests of each kind: every kernel, and every way in which queues wait for each other. compute-sanitizer makes a
# kernel ten times slower and more.
run_sanitizer() {
  on_a_gpu sanitizer || return 0
  sanitizer=$(command -v compute-sanitizer || command -v "$(dirname "$(readlink -f "$nvcc")")/compute-sanitizer") ||
    { skip sanitizer 'compute-sanitizer is neither on PATH nor beside nvcc'; return 0; }
  compile_first
  kernels='Elementwise.*:LayerNorm.*:Attention.ForwardAndBackward:Attention.MaterialisedForwardAndBackward:Attention.AtAnyAddress:Embedding.*:CrossEntropy.*:AdamW.*:TopK.*:ScatterAdd.*:Quantise.*:Matmul.MixedStorage:Matmul.WithItsGeluAndBack:RandomShapes.*:Random.EveryShardingDrawsTheSame:AgainstCpu.Casts'
  queues='Messages.*:Queues.*:Groups.*:Order.*:Release.*:Eager.*:Ledgers.Memory*'
  sanitize memcheck arithmetic_test_cuda "$kernels" --report-api-errors no
  sanitize racecheck arithmetic_test_cuda "$kernels"
  sanitize memcheck backend_test_cuda "$queues" --report-api-errors no --track-stream-ordered-races all
  sanitize synccheck arithmetic_test_cuda "$kernels"
  sanitize initcheck arithmetic_test_cuda "$kernels"
  sanitize initcheck backend_test_cuda "$queues"
}
sanitize() { # sanitize TOOL PROGRAM TESTS options…
  tool=$1 program=$2 chosen=$3
  shift 3
  act "${tool}_${program%_test_cuda}" 40 "$sanitizer" --tool "$tool" --error-exitcode 1 --show-backtrace device "$@" "$programs/$program" --gtest_filter="$chosen"
}

run_pytorch() {
  on_a_gpu pytorch || return 0
  pytorch_step gpt2-355m
}

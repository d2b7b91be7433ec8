#!/bin/sh
# The check for a rented GPU, run dry: every line of it that needs a GPU runs, with doubles of nvidia-smi, nvcc, cmake,
# ctest, compute-sanitizer and PyTorch, and benchmarks on the fake GPU whose rows say larger sizes than they had.
#   test.sh SOURCE PROGRAMS
set -u
root=$1 real_programs=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
doubles=$work/doubles pack=$work/lockstep-gpu results=$work/lockstep-gpu/results
failures=0
plain_path=$PATH
export doubles real_programs

fail() {
  echo "FAILED $1"
  failures=$((failures + 1))
}
double() { # double NAME: a program from standard input
  { echo '#!/bin/sh'; cat; } > "$doubles/$1"
  chmod +x "$doubles/$1"
}
# check WANTED-CODE arguments…: the check's output in $work/out
check() {
  wanted=$1
  shift
  PATH=$doubles:$plain_path sh "$pack/gpu-check.sh" "$@" > "$work/out" 2>&1
  got=$?
  [ $got -eq "$wanted" ] || { fail "gpu-check.sh $*: exit code $got, not $wanted"; cat "$work/out"; }
}
says() { # says FILE PATTERN…
  file=$1
  shift
  for pattern; do grep -Eq -e "$pattern" "$file" || { fail "$(basename "$file") does not say '$pattern'"; cut -c -160 "$file" | sed "s/^/    /"; }; done
}
says_not() { ! grep -Eq -e "$2" "$1" || fail "$(basename "$1") says '$2'"; }

# The pack, without what only a compiler reads.
mkdir -p "$doubles" "$pack/source" "$pack/third_party/lib"
cp "$root/tools/gpu_pack/gpu-check.sh" "$pack/"
for part in tools bench launch CMakeLists.txt; do ln -s "$root/$part" "$pack/source/$part"; done
echo 0123456789ab > "$pack/source/commit.txt"
uname -m > "$pack/third_party/lib/processor.txt"
touch "$pack/third_party/lib/libboost_context.a"
mkdir "$pack/third_party/cudnn_frontend"

double nvidia-smi << 'END'
[ ! -e "$doubles/no_gpu" ] || exit 9
case $* in
  -L) echo 'GPU 0: NVIDIA H200 (UUID: GPU-0)'; echo 'GPU 1: NVIDIA H200 (UUID: GPU-1)' ;;
  *name*) echo 'NVIDIA H200'; echo 'NVIDIA H200' ;;
  *compute_cap*) echo 9.0 ;;
  *memory.total*) echo 143771 ;;
  *driver_version*) echo 580.159.04 ;;
esac
END
double ninja < /dev/null
double nvcc << 'END'
echo 'Cuda compilation tools, release 13.0, V13.0.88'
END
double cmake << 'END'
case $* in
  --version) echo 'cmake version 3.25.1' ;;
  *'--target help') printf '%s: phony\n' all lab_tool backend_test_cuda backend_test_cuda_fake bench_gpt_cuda mine.21.1_cuda reference.week21_cuda ;;
  --build*)
    echo "$*" >> "$doubles/builds"
    mkdir -p "$2/programs"
    for name in gpt_cuda gpt_sim all_reduce_cuda all_reduce_nccl; do cp "$doubles/benchmark" "$2/programs/bench_$name"; done
    cp "$doubles/benchmark" "$2/programs/backend_test_cuda"
    cp "$doubles/benchmark" "$2/programs/arithmetic_test_cuda"
    ;;
  *)
    echo "$*" >> "$doubles/configured"
    mkdir -p "$4/backends"
    touch "$4/backends/cuda"
    echo '-- lockstep: NCCL 2.28.9'
    echo '-- lockstep: attention by cuDNN 9.19.0, through its frontend 1.32.0, or by our kernels (LOCKSTEP_ATTENTION)'
    ;;
esac
END
double ctest << 'END'
echo "$*" >> "$doubles/tests"
case $* in
  *week*) echo '50% tests passed, 1 tests failed out of 2'; exit 8 ;;
  *backend*) echo '1/2 Test #1: suite.backend.nccl ...***Skipped 0.1 sec'; echo '100% tests passed, 0 tests failed out of 2' ;;
  *arithmetic*) [ ! -e "$doubles/slow" ] || sleep 60; sleep 2; echo '100% tests passed, 0 tests failed out of 1' ;;
  *bench*) echo '1/1 Test #1: gpu.bench.gpt ...***Skipped 0.1 sec'; echo '100% tests passed out of 1' ;;
  *) echo '100% tests passed, 0 tests failed out of 9' ;;
esac
END
# A benchmark: small on the fake GPU, and its rows have the options.
double benchmark << 'END'
name=$(basename "$0") json='' csv='' model='' ranks=''
operations=0
while [ $# -gt 0 ]; do
  case $1 in --json) json=$2 ;; --csv) csv=$2 ;; --model) model=$2 ;; --ranks) ranks=$2 ;; --operations) operations=$2 ;; esac
  shift
done
case $name in
  bench_gpt_cuda)
    [ -z "${LOCKSTEP_RANK:-}" ] || exit 9  # it is no job of several processes
    "$real_programs/bench_gpt_fake" --model tiny --batch 1 --sequence 8 --matmul 16 --samples 3 --operations $operations --machine dgx-h200 --json "$json" --csv "$csv" || exit 1
    sed -i "s/tiny/$model/" "$json" "$csv"
    ;;
  bench_all_reduce_cuda)
    "$real_programs/bench_all_reduce_fake" --ranks "$ranks" --bytes 8KiB --samples 3 --json "$json" --csv "$csv" || exit 1
    sed -i 's/\<8192\>/268435456/g' "$json" "$csv"
    ;;
  bench_all_reduce_nccl) [ -n "$LOCKSTEP_RANK" ] && echo "rank $LOCKSTEP_RANK" ;;
  bench_gpt_sim) echo 'this computer lacks something'; exit 77 ;;
esac
END
double compute-sanitizer << 'END'
echo '========= COMPUTE-SANITIZER'
case $* in
  *racecheck*)
    echo '========= Error: Race reported between Write access at kernel+0x10'
    echo '=========     and Read access at kernel+0x20 [4 hazards]'
    echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)'
    exit 1
    ;;
  *initcheck*backend*) echo 'Device not supported. Please refer to the "Supported Devices" section'; exit 1 ;;
  *) echo '========= ERROR SUMMARY: 0 errors' ;;
esac
END
double python3 << 'END'
case $* in
  *nvidia.nccl*) echo /somewhere/nvidia/nccl ;;
  *cublasLt*) echo '/somewhere/nvidia/cu13;/elsewhere/nvidia/cublas' ;;
  *'import torch'*) echo True ;;
  *pytorch_step.py*gpt2-124m*)
    for how in eager compiled; do echo "PyTorch 2.11.0, $how, cuda, bf16, 124475904 parameters: median step 2.5 ms, 20 tokens/s, 1 TFLOP/s"; done
    ;;
  *rates.py*) echo '{}' > "$2" ;;
  *) echo 'no room' >&2; exit 1 ;;
esac
END

check 1
table=$results/table.txt
says "$table" '^Lockstep 0123456789ab on NVIDIA H200$' \
  '^arithmetic_tests +passed .* 0 failed, 0 skipped of 1 tests' '^backend_tests +passed .* 0 failed, 1 skipped of 2 tests' \
  '^small_bench_tests +SKIPPED' '^labs_tests +FAILED .* 1 failed, 0 skipped of 2 tests, exit code 8' '^attention_(ours|cudnn) +passed' '^attention: ours +[0-9]+ .*gpt2-124m' '^attention: cudnn +[0-9]+ .*gpt2-124m' '^rates +passed' '^operations of a step, tiny' '^matmul layers.*TFLOP/s' '^predicted +SKIPPED .*lacks something' \
  '^pytorch_gpt2-124m +passed' '^pytorch_gpt2-355m +FAILED .*exit code 1' '^nccl_all_reduce +passed' \
  '^memcheck_arithmetic +passed .* 0 findings' '^racecheck_arithmetic +FAILED .* 1 findings' '^initcheck_backend +SKIPPED .*does not support' \
  '^ring all-reduce, p = 4, .* >= 80 % +[0-9.]+ %$' '^GPT-2 124M in bf16.* >= 45 % +[0-9.]+ %$' \
  '^its tokens/s over those of torch.compile +>= 1.00 +[0-9.]+$' "^compute-sanitizer's findings +0 +1$" \
  '^  gpt2-124m +20 +PyTorch, compiled' '^ring +4 +268435456' '^device_copy +8 +268435456'
says "$work/out" '^racecheck_arithmetic +FAILED in' 'no room' 'Race reported'
says "$doubles/configured" '-DLOCKSTEP_CUDNN_FRONTEND=[^ ]*/third_party/cudnn_frontend/include' '-DCMAKE_CUDA_ARCHITECTURES=90-real' '-DLOCKSTEP_FAKE_GPU=OFF' '-DNCCL_ROOT=/somewhere/nvidia/nccl' \
  '-DLOCKSTEP_CUDA_LIBRARIES=/somewhere/nvidia/cu13;/elsewhere/nvidia/cublas'
says "$doubles/builds" '--target backend_test_cuda bench_gpt_cuda lab_tool -- -k 0$' '--target lab_tool reference.week21_cuda -- '
says_not "$doubles/builds" '--target all'
says "$results/check.json" '"gpu": "NVIDIA H200"' '"driver": "580.159.04"' '"cuda": "13.0.88"' '"nccl": "2.28.9"' \
  '"check": "labs_tests", "verdict": "FAILED"'

# The archive holds it as docs/results/ takes it.
mkdir "$work/there"
tar -C "$work/there" -xzf "$pack/results.tar.gz"
folder=$(ls "$work/there")
case $folder in nvidia-h200-20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]) ;; *) fail "the archive holds '$folder'" ;; esac
cmp -s "$table" "$work/there/$folder/table.txt" || fail 'the archive has another table'

# And ./lab report draws it.
if sh "$root/bench/report/report.sh" --from "$work/there/$folder" --output "$work/report" > "$work/report.log" 2>&1; then
  says "$work/report/index.html" 'gpt_gpt2-124m.json' 'all_reduce_4.json' 'check.json' 'racecheck_arithmetic'
  says_not "$work/report.log" '[.]json: '
else
  says "$work/report.log" 'no python3'
fi

# Another call continues: nothing is configured or compiled again, and what was found stays.
check 1 --stages labs
[ "$(cat "$doubles/configured" "$doubles/builds" | wc -l)" -eq 3 ] || fail 'it was built again'
says "$table" '^arithmetic_tests +passed' '^labs_tests +FAILED'

# Each stage can be a call of its own.
check 0 --stages rates
says "$work/out" '^rates +passed'
sed -i 's/attention by cuDNN.*/attention by our kernels alone, without cuDNN'"'"'s: cuDNN was not found/' "$results/configure.txt"
check 0 --stages attention
says "$work/out" '^attention +SKIPPED: .*cuDNN was not found'
check 1 --stages sanitizer
check 1 --stages pytorch

# A stage that does not fit is reported, and does not count as failed. What an earlier call found of it stays.
check 0 --stages=tests,labs --budget-seconds 11
says "$work/out" '^backend_tests +SKIPPED: the 11 s are over$' 'go on with: sh gpu-check.sh --stages tests,labs'
says "$table" '^backend_tests +passed' '^labs_tests +FAILED'

# Stopped, it shows what there is, and at once.
touch "$doubles/slow"
begin=$(date +%s)
PATH=$doubles:$plain_path timeout --foreground 4 sh "$pack/gpu-check.sh" --stages tests > "$work/out" 2>&1
[ $(($(date +%s) - begin)) -lt 50 ] || fail 'it went on when it was stopped'
says "$table" '^arithmetic_tests +TIMEOUT .* stopped$' '^rates +passed'
says "$work/out" '^results: '
rm "$doubles/slow"

# Without a GPU, nothing is measured.
rm -rf "$results"
touch "$doubles/no_gpu"
check 0 --stages benchmarks,sanitizer --archive "$work/elsewhere/a.tar.gz"
says "$table" '^benchmarks +SKIPPED .*no CUDA device' '^sanitizer +SKIPPED .*no CUDA device'
[ -f "$work/elsewhere/a.tar.gz" ] || fail 'no archive where it was asked for'

# Arguments that make no sense are answered in one sentence.
for arguments in '--stages nonsense' '--budget-seconds x' '--jobs' 'nonsense'; do
  # shellcheck disable=SC2086  # a list of words
  check 2 $arguments
  [ "$(wc -l < "$work/out")" -eq 1 ] || fail "$arguments: more than a sentence"
done

[ $failures -eq 0 ] && echo PASS
exit $((failures > 0))

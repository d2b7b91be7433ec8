#!/bin/sh
# PyTorch compared with our own step on MPI: a fake interpreter says what PyTorch would, so that the expected result is known;
# and PyTorch itself where it is installed.
#   pytorch_beside_test.sh LAUNCHER BENCH_GPT_MPI
set -eu
launcher=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; cat "$work/out"; exit 1; }
bench() { # bench PYTHON ARGUMENT...
  LOCKSTEP_PYTORCH=$1
  shift
  export LOCKSTEP_PYTORCH
  sh "$launcher" -n 2 --timeout 120 "$program" --machine laptop --model tiny --batch 4 --matmul 64 --samples 5 --json "$work/json" "$@" > "$work/out" 2>&1
}
value() { tr -d ' \n' < "$work/json" | tr '{' '\n' | grep "\"algorithm\":\"$1\"" | grep "\"ranks\":$2[,}]" | grep -o "\"$3\":[^,}]*" | cut -d: -f2; }

# The script's arguments go into a file for each rank; the sample of a step takes 1 s, on rank 1 two.
cat > "$work/python" <<end
#!/bin/sh
case "\$*" in *'import torch'*) echo 9.9.9; exit ;; esac
echo "\${RANK:-alone} of \${WORLD_SIZE:-1}: \$*" >> "$work/told.\${RANK:-alone}"
while [ "\$1" != --json ]; do shift; done
case \${STAND_IN:-} in
  fails) echo 'Traceback'; echo 'RuntimeError: no such thing'; exit 1 ;;
  unlearned) last=5.6 ;;
  *) last=5.4 ;;
esac
s=\$((1 + \${RANK:-0}))
echo "{\"rows\": [{\"first_loss\": 5.55, \"last_loss\": \$last, \"sample_seconds\": [\$s, \$s, \$s, \$s, \$s]}]}" > "\$2"
end
chmod +x "$work/python"

bench "$work/python" --ranks 1,2 --pytorch eager,compiled || fail "it does not run"
[ "$(value pytorch_eager 1 seconds) $(value pytorch_compiled 2 seconds)" = '1 2' ] || fail "of each sample the slowest rank should count"
for ranks in 1 2; do
  awk -v ours="$(value step $ranks seconds)" -v times="$(value step $ranks times_pytorch_eager)" -v theirs=$ranks \
    'BEGIN {exit !(times * ours / theirs > 0.999 && times * ours / theirs < 1.001)}' || fail "times_pytorch_eager on $ranks ranks"
done
grep -q '1 of 2: .*--model tiny --batch 2 --sequence 32 --vocabulary 256 --threads 1 .*--compile yes' "$work/told.1" || fail "rank 1 of 2 is told something else"
grep -q 'alone of 1: .*--batch 4 .*--compile no' "$work/told.alone" || fail "one rank has the whole batch, and no group"
STAND_IN=fails bench "$work/python" --ranks 1 --pytorch eager && fail "its failure is none of ours"
grep -q "rank 0.*: PyTorch's eager step failed: RuntimeError: no such thing" "$work/out" || fail "its last words should be told"
STAND_IN=unlearned bench "$work/python" --ranks 1 --pytorch eager && fail "a step that does not learn is taken"
grep -q 'rank 0.*: pytorch_eager has a wrong result' "$work/out" || fail "a step that does not learn is not told"
bench "$work/python" --ranks 2 --pytorch fast && fail "there is no such way"
bench "$work/python" --ranks 2 --dtype bf16 && fail "gradients of bf16 are not compared"

for python in python3 /usr/bin/python3; do
  "$python" -c 'import torch' 2> /dev/null || continue
  bench "$python" --ranks 1,2 --pytorch eager || fail "PyTorch itself"
  [ "$(value pytorch_eager 2 verified)" = true ] || fail "PyTorch itself is not verified"
  awk -v share="$(value pytorch_eager 2 waiting_cpu_share)" 'BEGIN {exit !(share < 0.1)}' || fail "the ranks should sleep meanwhile"
  echo "beside PyTorch of $python"
  break
done

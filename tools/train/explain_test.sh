#!/bin/sh
# The files that --explain-as prints are whole: shell, Python, JSON and YAML parse. With PyTorch they run, and every
# strategy has the losses of one rank. Skipped (77) where what a part needs is not installed.
#   explain_test.sh parses|runs TRAIN_SIM SOURCE
set -eu
part=$1 train=$2 source=$3
# shellcheck source=tools/probes.sh
. "$source/tools/probes.sh"
if [ "$part" = runs ]; then
  python=$(find_pytorch 'import torch.distributed.fsdp as f; f.fully_shard') || { echo "no PyTorch with fully_shard"; exit 77; }
else
  python=$(command -v python3) || { echo "no python3"; exit 77; }
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
model=tiny
export OMP_NUM_THREADS=1 TEXT="$source/data/austen.txt"
fail() { echo "FAILED: $*"; exit 1; }

write() { # PROGRAM OPTION…: its files, in the folder `made`
  program=$1
  shift
  rm -rf "$folder/made" && mkdir "$folder/made" && cd "$folder/made"
  "$train" --model "$model" --untied --sequence 16 --steps 6 --log-every 2 --warmup 3 --batch 16 "$@" --explain-as "$program" > start.sh
  sh -n start.sh || fail "$program $*: start.sh is no shell script"
  awk '/^# What differs/ { exit } { print }' start.sh > files.sh
  sh files.sh
}

parse() { # PROGRAM OPTION…
  write "$@"
  "$python" - <<'END' || fail "$*"
import glob, json, re

for name in glob.glob("*.py"):
    with open(name) as file:
        compile(file.read(), name, "exec")
for name in glob.glob("*.json"):
    with open(name) as file:
        assert json.load(file)["optimizer"]["type"]
for name in glob.glob("*.yaml"):
    with open(name) as file:
        lines = file.read().splitlines()
    for line in lines:
        assert re.fullmatch(r"(  )?[a-z0-9_]+:( [^ :{}]+( +#.*)?)?", line), line
    try:
        import yaml
    except ImportError:
        continue
    with open(name) as file:
        assert isinstance(yaml.safe_load(file)["num_processes"], int)
END
}

losses() { # RANKS
  timeout 200 "$python" -m torch.distributed.run --standalone --nproc-per-node "$1" train.py > log 2>&1 ||
    { tail -n 40 log; fail "train.py on $1 ranks"; }
  grep '^step ' log
}

same() { # RANKS OPTION…
  ranks=$1
  shift
  write torchrun --checkpoint kept --checkpoint-every 4 "$@"
  losses "$ranks" > "$folder/these"
  [ -s "$folder/one" ] || cp "$folder/these" "$folder/one"
  paste -d' ' "$folder/one" "$folder/these" | awk '{ d = $4 - $8; if ($2 != $6 || d * d > 4e-6) exit 1; n++ } END { exit n != 3 }' ||
    fail "$* has other losses than one rank: $(cat "$folder/these")"
}

case $part in
  parses)
    for program in torchrun accelerate deepspeed megatron; do
      for strategy in '--dp 2' '--dp 2 --zero 1' '--dp 4 --zero 2 --microbatches 2' '--dp 4 --zero 3 --precision bf16' \
        '--dp 4 --zero 3 --shard-group 2' '--tp 2 --dp 2 --sequence-parallel --recompute full' '--pp 2 --precision fp16' \
        '--pp 2 --schedule zb-v --layers 4' '--dp 2 --cp 2 --precision fp16' '--dp 2 --optimizer sgd --clip 0' \
        '--dp 16 --machine dgx-a100-hdr --zero 3'; do
        # shellcheck disable=SC2086  # words
        parse $program $strategy
      done
      model=tiny-llama
      parse "$program" --dp 2
      model=tiny
    done
    ;;
  runs)
    same 1
    same 2 --dp 2 --microbatches 2
    same 2 --dp 2 --zero 1
    same 2 --dp 2 --zero 3
    rm -rf kept/6 # as if it had been killed after step 4
    losses 2 > resumed
    tail -n 1 "$folder/one" | cmp -s - resumed || fail "resumed: $(cat resumed)"
    same 2 --tp 2 --sequence-parallel
    same 2 --pp 2
    ;;
esac

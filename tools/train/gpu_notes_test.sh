#!/bin/sh
# tools/train/gpu_notes_test.sh TRAIN: what a training run on a GPU says of that GPU, in its output and its results: slower
# ways, and who did its attention. TRAIN runs on the fake GPU.
set -eu
train=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# run NAME OPTION…: its output in NAME.txt, its results in NAME.json, its losses in NAME.csv
run() {
  name=$1
  shift
  "$train" --model tiny --batch 8 --sequence 32 --steps 2 --sample 0 --seed 3 --json "$folder/$name.json" --csv "$folder/$name.csv" "$@" \
    > "$folder/$name.txt" 2>&1 || { cat "$folder/$name.txt"; exit 1; }
}
# field NAME FIELD
field() { sed -n 's/.*"'"$2"'": *"\([^"]*\)".*/\1/p' "$folder/$1.json"; }
fail() {
  echo "$1"
  cat "$folder"/*.txt "$folder"/*.json
  exit 1
}

run plain
[ "$(field plain slow_paths)" = none ] || fail "slow_paths of an fp32 run is not none"
! grep -q 'slower way' "$folder/plain.txt" || fail "an fp32 run speaks of slower ways"

run slow --precision bf16 --heads 2 --d-model 12
case $(field slow slow_paths) in
  *[1-9]*' × attention without tensor cores'*) ;;
  *) fail "heads of 6 elements are not told of" ;;
esac
grep -qF "done in a slower way than usual (docs/use/gpu.md): $(field slow slow_paths)" "$folder/slow.txt" || fail "not printed"

# Attention by the fake cuDNN, of sharded heads; by our kernels, where it was asked for in vain; and a word that says nothing.
LOCKSTEP_FAKE_CUDNN=1 LOCKSTEP_ATTENTION=cudnn run fused --precision bf16 --ranks 2 --tp 2
case $(field fused attention) in
  [1-9]*' by fake cuDNN, 0 by our kernels') ;;
  *) fail "attention is not the fake cuDNN's alone" ;;
esac
[ "$(field fused slow_paths)" = none ] || fail "cuDNN's attention counts as a slow path"
LOCKSTEP_ATTENTION=cudnn run vain --precision bf16
case $(field vain attention)$(field vain slow_paths) in
  '0 by cuDNN, '[1-9]*' by our kernels (this program was built without cuDNN)'[1-9]*" × attention by our kernels in place of cuDNN's") ;;
  *) fail "what cuDNN could not do is not told of" ;;
esac
grep -qF "attention: $(field vain attention)" "$folder/vain.txt" || fail "not printed"
if LOCKSTEP_ATTENTION=flash "$train" --model tiny --batch 8 --sequence 32 --steps 1 > "$folder/word.txt" 2>&1; then fail "any word will do"; fi
grep -qF 'LOCKSTEP_ATTENTION=flash: allowed are auto, cudnn and ours' "$folder/word.txt" || fail "the word is not named"

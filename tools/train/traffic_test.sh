#!/bin/sh
# A rank sends in a step what the run predicted, to the digits printed, also where gradients are summed in another type
# than they are computed in.
#   traffic_test.sh TRAIN_SIM
set -eu
for way in "--precision bf16" "--precision bf16 --reduce fp32" "--precision bf16 --fp32-gradients --zero 1" "--precision bf16 --zero 1" \
  "--precision bf16 --reduce fp32 --zero 3" "--precision bf16 --cp 4" "--precision bf16 --cp 2 --zero 1 --recompute full" \
  "--precision bf16 --zero 3 --shard-group 4" "--precision bf16 --zero 3 --shard-group 2 --microbatches 4" \
  "--precision bf16 --cp 4 --model tiny-llama --layers 8 --d-model 512 --sequence 512"; do
  case $way in *--model*) model= ;; *) model="--model gpt2-124m" ;; esac
  # shellcheck disable=SC2086
  line=$("$1" --phantom --machine dgx-a100 $model --ranks 8 --batch 64 --steps 2 $way | grep '^traffic')
  echo "$way: $line"
  echo "$line" | awk '{ exit !($2 > 100 && $2 " " $3 "," == $9 " " $10 || $2 " " $3 ":" == $9 " " $10) }'
done

#!/bin/sh
# Trains transformers' weights on a (2, 2, 2) mesh, exports the checkpoint, and lets PyTorch compute the logits of what
# was exported: those that transformers computed after the same training. The same of a Llama, against llama.py. Skipped (77) where no PyTorch is installed.
#   pytorch_test.sh TRAIN_SIM SOURCE
set -eu
train=$1 golden=$2/common/gpt/model/golden
# shellcheck source=tools/probes.sh
. "$2/tools/probes.sh"
python=$(find_pytorch 'import torch') || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -c "import sys; sys.stdout.buffer.write(bytes((31 * n * n + 7 * n + 3) % 251 for n in range(2000)))" > "$folder/text"
"$train" --model tiny --heads 4 --d-model 24 --dp 2 --tp 2 --pp 2 --microbatches 2 --batch 8 --sequence 16 --steps 5 \
  --lr 0.03 --warmup 10 --sample 0 --data "$folder/text" --init "$golden/gpt2.safetensors" --checkpoint "$folder/run" > /dev/null
"$train" --export "$folder/run" "$folder/hf"
"$python" -B "$golden/check_export.py" "$folder/hf"
"$python" -B "$golden/make_llama_golden.py" "$folder/llama.safetensors"
"$train" --model "$golden/llama.json" --dp 2 --tp 2 --pp 2 --microbatches 2 --batch 8 --sequence 16 --steps 5 \
  --lr 0.01 --warmup 10 --sample 0 --data "$folder/text" --init "$folder/llama.safetensors" --checkpoint "$folder/llama" > /dev/null
"$train" --export "$folder/llama" "$folder/hf_llama"
"$python" -B "$golden/check_export.py" "$folder/hf_llama"

#!/bin/sh
# Claims of the course texts about strategies, in whole training steps that the simulator plays without memory:
# docs/learn/claims.md has the verdicts. Prints what it measures, and fails where a verdict would change.
#   claims_test.sh TRAIN_SIM SOURCE
set -eu
train=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A machine whose messages cost nothing: what a step still takes on it is arithmetic and bubbles.
free_links() { # MACHINE OF ONE NODE
  sed -e 's/^    {"name": "\(NVLink\|PCIe 4 x16\)", .*/    {"name": "\1", "ranks": 0, "latency_seconds": 0, "bytes_per_second": 1e14, "shared": false}/' \
    -e '/"name": "host bridge"/d' -e "s/\"name\": \"$1\"/\"name\": \"free\"/" "$source/bench/machines/$1.json" > "$folder/free.json"
}
play() { "$train" --precision bf16 --sequence 1024 --steps 2 --phantom --json "$folder/row.json" "$@" > "$folder/said" || { cat "$folder/said" >&2; exit 1; }; }
field() { sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" "$folder/row.json" | head -n 1; }
calculate() { awk "BEGIN { printf \"$1\", $2 }"; }
holds() { # WORDS CONDITION
  awk "BEGIN { exit !($2) }" || { echo "no longer so: $1 ($2)"; exit 1; }
}

gib() { calculate '%.1f GiB' "$1 / 2^30"; }
memory() { # of the fullest rank, in bytes
  total=$(field memory_bytes_peak)
  [ -n "$total" ] || total="$(field parameter_bytes_peak) + $(field gradient_bytes_peak) + $(field optimizer_bytes_peak) + $(field activation_bytes_peak)"
  calculate %.0f "$total"
}
memory_of_gpu() { sed -n 's/^  "memory_bytes": \([0-9.e]*\).*/\1/p' "$source/bench/machines/$1.json"; } # not its host's
sent() { # by a rank in a step, in bytes
  inside=$(field bytes_sent_inside_nodes)
  [ -n "$inside" ] || { field bytes_sent_per_step; return; }
  calculate %.0f "($inside + $(field bytes_sent_across_nodes)) / $1"
}
# Share of a step that messages make longer, in percent; leaves the row on the machine itself in place.
exposed() { # MACHINE NODE OPTIONS: NODE has its GPU
  machine=$1 node=$2
  shift 2
  free_links "$node"
  play --machine "$folder/free.json" "$@"
  without=$(field seconds)
  play --machine "$machine" "$@"
  calculate %.1f "100 * (1 - $without / $(field seconds))"
}

echo '-- strategies by the number of GPUs: GPT-2 1.5B in bf16, 8 sequences a GPU, DGX A100 with an HDR port a GPU'
play --machine dgx-a100-hdr --model gpt2-1.5b --dp 1 --batch 8
alone=$(field tokens_per_second)
options() { # STRATEGY P: sets $line
  case $1 in
    ddp) line="--dp $2" ;;
    fsdp) line="--dp $2 --zero 3" ;;
    tp) line="--tp $2 --heads 16 --microbatches $2" ;;
    pp) line="--pp $2 --microbatches $((8 * $2))" ;;
    3d) line="--tp 2 --heads 16 --pp 2 --dp $(($2 / 4)) --microbatches 16" ;;
  esac
  line="--model gpt2-1.5b --batch $((8 * $2)) $line"
}
for strategy in ddp fsdp tp pp 3d; do
  options $strategy 8
  # shellcheck disable=SC2086  # options
  share=$(exposed dgx-a100-hdr dgx-a100 $line)
  bytes=$(gib "$(sent 8)") held=$(gib "$(memory)") largest=0 rates=
  case $strategy in
    ddp | fsdp) sizes='8 16 32' ;;
    tp) sizes='2 4 8 16' ;;
    pp) sizes='2 4 8 16 24' ;;
    3d) sizes='8 32 128 512' ;;
  esac
  for p in $sizes; do
    options $strategy "$p"
    # shellcheck disable=SC2086
    play --machine dgx-a100-hdr $line
    rate=$(calculate %.2f "$(field tokens_per_second) / ($p * $alone)")
    rates="$rates $p: $rate"
    [ "$(calculate %d "($rate >= 0.8)")" -eq 0 ] || largest=$p
  done
  echo "  measured: $strategy on 8: $held, sends $bytes, exposed $share %; efficiency$rates; at least 0.8 up to $largest"
  echo "$strategy $largest $share $(memory) $(sent 8)" >> "$folder/table"
done
largest() { sed -n "s/^$1 \([0-9]*\) .*/\1/p" "$folder/table"; }
holds 'DDP reaches 0.8 on 16, not on 32' "$(largest ddp) == 16"
holds 'FSDP ends where DDP does' "$(largest fsdp) == $(largest ddp)"
holds 'tensor parallelism ends below the 8 of a node' "$(largest tp) < 8"
holds 'pipelines end before data parallelism' "$(largest pp) < $(largest ddp)"

echo '-- ZeRO-2 first? GPT-2 355M in bf16, 4 RTX 4090 over PCIe, 8 sequences a rank'
for m in 1 8; do
  for zero in 0 1 2 3; do
    play --machine pcie-box --model gpt2-355m --dp 4 --zero $zero --batch 32 --microbatches $m
    echo "  measured: $m microbatches, ZeRO-$zero: $(calculate '%.0f ms' "1000 * $(field seconds)"), sends $(gib "$(sent 4)"), $(gib "$(memory)")"
    echo "$m.$zero $(field seconds) $(memory) $(sent 4)" >> "$folder/zero"
  done
done
zero() { sed -n "s/^$1 //p" "$folder/zero" | cut -d ' ' -f "$2"; } # STEP.STAGE 1 seconds, 2 bytes held, 3 bytes sent
holds 'without accumulation ZeRO-2 sends no more than ZeRO-1' "$(zero 1.2 3) < 1.01 * $(zero 1.1 3)"
holds 'with 8 microbatches it sends 4.5 times as much' "$(zero 8.2 3) > 4.4 * $(zero 8.1 3) && $(zero 8.2 3) < 4.6 * $(zero 8.1 3)"
holds 'and is slower than ZeRO-1' "$(zero 8.2 1) > 1.1 * $(zero 8.1 1)"

echo '-- which collectives FSDP has: parts of Ψ(p − 1)/p that a rank sends'
parts() { calculate %.2f "2 * $(zero "$1" 3) / $(zero 1.0 3)"; } # DDP sends two: its all-reduce
echo "  measured: DDP 2.00, ZeRO-3 $(parts 1.3); with 8 microbatches $(parts 8.3)"
holds 'parameters are gathered twice, gradients reduce-scattered once' "$(parts 1.3) > 2.99 && $(parts 1.3) < 3.01"
holds 'and so again in every microbatch' "$(parts 8.3) > 23.9 && $(parts 8.3) < 24.1"

echo '-- FSDP around the whole model: GPT-2 355M in bf16, 4 RTX 4090 over PCIe, one sequence a rank'
for how in ddp model block; do
  case $how in ddp) options='--zero 0' ;; *) options="--zero 3 --wrap $how" ;; esac
  # shellcheck disable=SC2086  # options
  play --machine pcie-box --model gpt2-355m --dp 4 --batch 4 $options
  echo "  measured: $how: parameters $(calculate '%.0f MiB' "$(field parameter_bytes_peak) / 2^20"), $(calculate '%.1f k tokens/s' "$(field tokens_per_second) / 1000")"
  echo "$how $(field parameter_bytes_peak) $(field tokens_per_second)" >> "$folder/wraps"
done
wrap() { sed -n "s/^$1 //p" "$folder/wraps" | cut -d ' ' -f "$2"; } # HOW 1 bytes, 2 tokens per second
holds 'one unit holds more parameters than DDP' "$(wrap model 1) > $(wrap ddp 1)"
holds 'a unit per block holds less' "$(wrap block 1) < 0.5 * $(wrap ddp 1)"
holds 'and is faster than one unit' "$(wrap block 2) > $(wrap model 2)"

echo '-- the largest GPU has 80 GB?'
for machine in dgx-a100 dgx-h200 dgx-b200; do
  bytes=$(memory_of_gpu "$machine")
  echo "  measured: $machine: $(calculate '%.0f GB' "$bytes / 1e9")"
  echo "$machine $bytes" >> "$folder/gpus"
done
gpu() { sed -n "s/^$1 //p" "$folder/gpus"; }
holds 'two generations after it have more' "$(gpu dgx-h200) > $(gpu dgx-a100) && $(gpu dgx-b200) > $(gpu dgx-h200)"

echo '-- complexity: lines of the reference answers that a learner writes'
lines() { # EXERCISE_FILES
  (cd "$source/solutions" && cat "$@") | awk '/\/\/ lab .* begin/ { on = 1; next } /\/\/ lab end/ { on = 0 } on && NF && !/^ *\/\// { n++ } END { print n }'
}
tp=$(cd "$source/solutions" && ls week23_tensor_parallel/parallel_linear.cpp week23_tensor_parallel/tensor_*.cpp)
{
  echo "ddp $(lines week21_data_parallel/ddp.cpp)"
  echo "fsdp $(lines week22_zero/fsdp.cpp week22_zero/sharding_policy.cpp)"
  # shellcheck disable=SC2086  # files
  echo "tp $(lines $tp)"
  echo "pp $(lines week24_pipeline/stages.cpp week24_pipeline/gpipe.cpp week24_pipeline/one_f_one_b.cpp)"
  echo "3d $(lines week25_3d/mesh.cpp week25_3d/step_3d.cpp)"
} > "$folder/lines"
sed 's/^/  measured: /' "$folder/lines"
written() { sed -n "s/^$1 //p" "$folder/lines"; }
holds 'DDP is the shortest' "$(written ddp) < $(written fsdp) && $(written fsdp) < $(written pp)"
holds 'a pipeline is no longer than tensor parallelism' "$(written pp) < $(written tp)"

echo '-- FSDP above 10B? state and activations of one sequence a rank, against the memory of a GPU'
fits() { # MACHINE MODEL OPTIONS
  machine=$1 model=$2
  shift 2
  play --machine "$machine" --model "$model" "$@"
  room=$(memory_of_gpu "$machine")
  echo "  measured: $model $* on $machine: $(calculate '%.1f of %.0f GB' "$(memory) / 1e9, $room / 1e9")" >&2
  calculate %d "($(memory) <= $room)"
}
holds '0.8B fits an A10 with DDP' "$(fits a10-pair gpt2-774m --dp 2 --batch 2) == 1"
holds '1.6B does not' "$(fits a10-pair gpt2-1.5b --dp 2 --batch 2) == 0"
holds 'and does with FSDP' "$(fits a10-pair gpt2-1.5b --dp 2 --batch 2 --zero 3) == 1"
holds '6.3B does not fit an A100 of 80 GB with DDP' "$(fits dgx-a100 gpt3-13b --layers 19 --dp 8 --batch 8) == 0"
holds '13B fits one of 8 with FSDP' "$(fits dgx-a100 gpt3-13b --dp 8 --batch 8 --zero 3) == 1"

echo '-- is the bandwidth of all-reduce the bottleneck? DDP, GPT-2 355M in bf16, share of a step that messages make longer'
for row in 'dgx-a100 dgx-a100 8 8' 'dgx-a100 dgx-a100 8 1' 'pcie-box pcie-box 4 8' 'pcie-box-10gbe pcie-box 8 8'; do
  # shellcheck disable=SC2086  # words
  set -- $row
  share=$(exposed "$1" "$2" --model gpt2-355m --dp "$3" --batch $(($3 * $4)))
  echo "  measured: $3 ranks of $1, $4 sequences a rank: $share %"
  echo "$1.$4 $share" >> "$folder/bottleneck"
done
bottleneck() { sed -n "s/^$1 //p" "$folder/bottleneck"; }
holds 'not on NVLink' "$(bottleneck dgx-a100.8) < 5"
holds 'on 10 GbE it is nearly everything' "$(bottleneck pcie-box-10gbe.8) > 80"

echo '-- does fusion allow larger microbatches? attention of GPT-2 1.5B, sequences of 1,024, ZeRO-3 over 8 A100'
for attention in flash materialised; do
  most=0
  for sequences in 1 2 4 8 16 32; do
    play --machine dgx-a100 --model gpt2-1.5b --dp 8 --zero 3 --batch $((8 * sequences)) --attention $attention
    [ "$(calculate %d "($(memory) <= 80e9)")" -eq 0 ] || most=$sequences
    [ $sequences -ne 8 ] || each=$(calculate %.2f "$(field activation_bytes_peak) / 8 / 1e9")
  done
  echo "  measured: $attention: $each GB of activations a sequence, $most sequences fit"
  echo "$attention $most" >> "$folder/fusion"
done
fusion() { sed -n "s/^$1 //p" "$folder/fusion"; }
holds 'fused attention lets a larger microbatch fit' "$(fusion flash) > $(fusion materialised) && $(fusion materialised) > 0"

echo '-- InfiniBand: 200 to 800 Gb/s a node?'
ports() { # MACHINE GPUS_OF_A_NODE: Gb/s that a node reaches, of its ports together
  line=$(grep InfiniBand "$source/bench/machines/$1.json" | grep bytes_per_second | head -n 1)
  port=$(echo "$line" | sed -n 's/.*"bytes_per_second": \([0-9.e+]*\).*/\1/p')
  case $line in *'"shared": true'*) count=1 ;; *) count=$2 ;; esac
  calculate %.0f "8 * $count * $port / 1e9"
}
for row in 'dgx-1v-edr 8' 'dgx-a100-hdr 8' 'dgx-h100-ndr 8'; do
  # shellcheck disable=SC2086  # words
  set -- $row
  gbits=$(ports "$1" "$2")
  echo "  measured: $1: $gbits Gb/s a node, as NCCL reaches it"
  echo "$1 $gbits" >> "$folder/ports"
done
gbits() { sed -n "s/^$1 //p" "$folder/ports"; }
holds 'a DGX-1 is in the range' "$(gbits dgx-1v-edr) >= 200 && $(gbits dgx-1v-edr) <= 800"
holds 'a DGX A100 and a DGX H100 are above it' "$(gbits dgx-a100-hdr) > 800 && $(gbits dgx-h100-ndr) > 1600"

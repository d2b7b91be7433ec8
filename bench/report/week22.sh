# shellcheck shell=sh disable=SC2154
# Sourced by bench/report/report.sh: the steps of week 22, ZeRO, mixed precision and activations.

step memory "memory by ZeRO stage, calculated" rows "$programs/bench_memory_sim" --params 7e9,13e9,175e9 --ranks 1,2,4,8,16,32,64,128,256,512,1024
step zero_memory:1 "ZeRO's stages weighed, really allocated" rows "$programs/bench_zero_sim" --model small --ranks 1,2,4,8 --sequence 16 --memory-only
for machine in pcie-box:4 dgx-a100:8 dgx-a100-10gbe:16; do
  for tokens in 2048 4096 8192; do
    name=${machine%:*}_$tokens
    step "zero_sim_$name" "ZeRO's stages on ${machine%:*}, $tokens tokens per rank, simulated" rows "$programs/bench_zero_sim" --model gpt2-355m --phantom \
      --machine "${machine%:*}" --ranks "${machine#*:}" --batch 4 --sequence $((tokens / 4))
  done
done
# Full and hybrid sharding (22.8): a port a node, a port a GPU, one node
for machine in "dgx-a100-10gbe:16:--microbatches 1,4" "dgx-a100-hdr:16:--microbatches 1,4" "dgx-h100:8:--within 8,4,2"; do
  name=${machine%%:*} rest=${machine#*:}
  # shellcheck disable=SC2086
  step "hsdp_sim_$name" "full and hybrid sharding on $name, simulated" rows "$programs/bench_hsdp_sim" --model gpt2-1.5b --dtype bf16 --batch 2 --phantom \
    --machine "$name" --ranks "${rest%%:*}" ${rest#*:}
done
if has bench_zero_mpi; then
  step "zero_mpi:$(pick 8 4)" "ZeRO's stages, measured on 2 MPI processes" rows mpi 2 "$programs/bench_zero_mpi" --ranks 2 --params 5e6 --dtype fp32 --sequence 16 \
    --samples "$(pick 15 7)"
  extra zero_emulated:20 "plain DDP and ZeRO-3, emulated with 4 MPI processes" rows mpi 4 "$programs/bench_zero_mpi" --ranks 4 --model small --batch 8 \
    --stages 0,3 --emulate laptop --scale 10 --samples 3
fi
step activations "activations by what is recomputed, simulated" rows "$programs/bench_activations_sim" --model gpt2-124m --batch 8 \
  --machine dgx-a100 --phantom
if has train_sim; then
  low="--loss-scale 2^-17 --loss-scale-interval" # gradients as small as those of a batch 2^17 times as large
  for run in fp32 bf16 fp16 "fp16_low:$low 100000" "fp16_low_grows:$low 4"; do
    name=${run%%:*} more=
    case $run in *:*) more=${run#*:} ;; esac
    # shellcheck disable=SC2086
    step "precision_$name:1" "training on text in $(echo "$name" | tr _ ' ')" "$programs/train_sim" --backend serial --model tiny --steps 300 \
      --batch 8 --warmup 10 --lr 1e-2 --log-every 1 --sample 0 --precision "${name%%_*}" $more --csv "$data/precision_$name.csv"
  done
fi

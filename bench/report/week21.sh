# shellcheck shell=sh disable=SC2154
# Sourced by bench/report/report.sh: the steps of week 21, data parallelism.

all_reduce=$programs/bench_all_reduce
for machine in pcie-box:4 dgx-a100:8 dgx-h100:8 dgx-a100-hdr:16; do
  name=${machine%:*}
  step "all_reduce_sim_$name" "all-reduce, simulated on $name" rows "${all_reduce}_sim" --machine "$name" \
    --ranks "${machine#*:}" --bytes 4KiB:512MiB --phantom
done
for machine in dgx-a100-hdr dgx-a100-10gbe; do # a network port for each GPU, and one for all of a node
  step "crossover_sim_$machine" "crossovers of all-reduces, simulated on $machine" rows "${all_reduce}_sim" --machine "$machine" --ranks 16 \
    --bytes 1KiB:256MiB --algorithm all,auto --phantom
done
for machine in dgx-a100:8 dgx-a100-hdr:16; do
  name=${machine%:*}
  step "collectives_sim_$name" "the other collectives, simulated on $name" rows "$programs/bench_collectives_sim" --machine "$name" \
    --ranks "${machine#*:}" --bytes 4KiB:256MiB --phantom
done
step speed_phantom "simulator: 1,024 ranks, prices only" rows alone "${all_reduce}_sim" --ranks 1024 --bytes 64KiB --algorithm ring --phantom
step speed_real:1 "simulator: 1,024 ranks, real data" rows alone "${all_reduce}_sim" --ranks 1024 --bytes 64KiB --algorithm ring
step overhead "overhead of communication, simulated" rows "$programs/bench_overhead_sim" --ranks 2
for machine in pcie-box:1,2,4 dgx-a100:1,2,4,8 dgx-a100-hdr:1,2,4,8,16,32,64; do
  name=${machine%:*}
  step "scaling_sim_$name" "scaling, simulated on $name" rows "$programs/bench_scaling_sim" --machine "$name" \
    --ranks "${machine#*:}" --model gpt2-124m --batch 64 --phantom
done
for machine in pcie-box:4 dgx-a100:8; do
  name=${machine%:*}
  step "ddp_sim_$name" "DDP step, simulated on $name" rows "$programs/bench_ddp_sim" --machine "$name" \
    --ranks "${machine#*:}" --model gpt2-124m --batch 8 --phantom --bucket-bytes 1MiB,5MiB,25MiB,100MiB --microbatches 1,4
done
step timeline "DDP timeline with and without overlap" "$programs/bench_ddp_sim" --machine pcie-box --ranks 2 \
  --model gpt2-124m --batch 4 --phantom --bucket-bytes 25MiB --timeline "$data/timeline" --json "$data/timeline.json"

if [ -x "${all_reduce}_mpi" ] && has bench_all_reduce_mpi; then
  step calibrate:20 "what measurements are predicted from" mpi 2 "$programs/bench_calibrate_mpi"
  step "all_reduce_mpi:$(pick 15 8)" "all-reduce, measured on 2 MPI processes" rows mpi 2 "${all_reduce}_mpi" \
    --bytes "$(pick 4KiB:16MiB 4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB)" --samples "$(pick 31 15)"
  extra collectives_mpi:12 "the other collectives, measured on 2 MPI processes" rows mpi 2 "$programs/bench_collectives_mpi" --bytes 4KiB,32KiB,256KiB,2MiB,16MiB
  extra crossover_emulated:10 "crossovers of all-reduces, emulated with 4 MPI processes" rows mpi 4 "${all_reduce}_mpi" --ranks 4 --emulate pcie-box \
    --scale 300 --samples 7 --bytes 16KiB:1MiB --algorithm recursive_doubling,rabenseifner,ring,auto
  step "scaling_mpi:$(pick 30 10)" "scaling, measured on MPI processes" rows mpi 2 "$programs/bench_scaling_mpi" --ranks 1,2 --model small \
    --batch "$(pick 16 8)" --samples "$(pick 15 9)"
  most=$(pick 8 4)
  step "scaling_emulated:$(pick 40 10)" "scaling, emulated with up to $most MPI processes" rows mpi "$most" "$programs/bench_scaling_mpi" --ranks "$(pick 1,2,4,8 1,2,4)" \
    --model tiny --batch 8 --emulate laptop --scale "$(pick 50 25)" --samples "$(pick 5 3)"
  step "ddp_mpi:$(pick 15 6)" "DDP step, measured on 2 MPI processes" rows mpi 2 "$programs/bench_ddp_mpi" --ranks 2 --model small --batch 4 --samples "$(pick 31 11)"
  step ddp_laptop "the same step, simulated" rows "$programs/bench_ddp_sim" --machine laptop --ranks 4 --model tiny --batch 4
  step "ddp_emulated:$(pick 5 3)" "DDP step, emulated with 4 MPI processes" rows mpi 4 "$programs/bench_ddp_mpi" --ranks 4 --model tiny --batch 4 \
    --emulate laptop --scale 20 --samples "$(pick 11 5)"
else
  say "no MPI in this build: what is measured on processes is left out"
fi

if has train_sim; then
  # shellcheck disable=SC2086
  step train_serial:1 "training on text, serial" "$programs/train_sim" --ranks 1 $training --csv "$data/train_serial.csv"
  if has train_mpi; then
    # shellcheck disable=SC2086
    step train_ddp:1 "training on text, DDP on 2 MPI processes" mpi 2 "$programs/train_mpi" $training --csv "$data/train_ddp.csv"
  else
    # shellcheck disable=SC2086
    step train_ddp:1 "training on text, DDP on 2 simulated ranks" "$programs/train_sim" --ranks 2 $training --csv "$data/train_ddp.csv"
  fi
fi

# Larger batches (21.8): a small batch at a moderate rate and at its best one, then eight times the batch by each rule.
if has train_sim; then
  for rate in 1e-3 3e-3; do
    for run in "small:--batch 8 --steps 640 --warmup 40" "none:--warmup 5" "linear:--lr-scaling linear --base-batch 8 --warmup 20" \
      "linear_cold:--lr-scaling linear --base-batch 8 --warmup 0" "sqrt:--lr-scaling sqrt --base-batch 8 --warmup 5"; do
      name=batch_${rate}_${run%%:*} more=${run#*:}
      case $run in small:*) ;; *) more="--batch 64 --steps 80 $more" ;; esac
      # shellcheck disable=SC2086
      extra "$name:2" "training with larger batches: rate $rate, $(echo "${run%%:*}" | tr _ ' ')" "$programs/train_sim" --backend serial --model tiny --sample 0 --log-every 1 \
        --lr "$rate" $more --csv "$data/$name.csv"
    done
  done
fi

# Compressed gradients (21.9): losses where the rate is small against the delay of what is owed, and where it is not; then bytes and time.
if has train_sim; then
  for kind in "sgd:0.05:--optimizer sgd --lr 0.1 --clip 0" "adamw:0.01:--lr 3e-3"; do
    optimizer=${kind%%:*} rest=${kind#*:}
    density=${rest%%:*}
    for run in "none:" "topk:--compress topk:$density" "topk_forgets:--compress topk:$density --no-feedback" "int8:--compress int8-two-step"; do
      name=compress_${optimizer}_${run%%:*}
      # shellcheck disable=SC2086
      extra "$name:3" "training with compressed gradients: $optimizer, ${run%%:*}" rows "$programs/train_sim" --ranks 2 --model tiny --steps 400 --batch 16 \
        --sample 0 --log-every 1 ${rest#*:} ${run#*:}
    done
  done
fi
for machine in pcie-box-10gbe:2,4,8,16,32,64 dgx-a100:2,4,8; do
  name=${machine%:*}
  step "compression_sim_$name" "sums of compressed gradients, simulated on $name" rows "$programs/bench_compression_sim" --machine "$name" \
    --ranks "${machine#*:}" --density 0.01,0.001 --phantom
done
if has bench_local_sgd_sim; then # the same methods compared with local SGD and DiLoCo (21.12)
  for ranks in 2 4; do
    extra "local_sgd_$ranks:18" "local SGD and DiLoCo beside compressed gradients: $ranks ranks" rows "$programs/bench_local_sgd_sim" \
      --ranks "$ranks" --steps 400
  done
fi
if has bench_compression_mpi; then
  extra compression_mpi:10 "sums of compressed gradients, measured on 2 MPI processes" rows mpi 2 "$programs/bench_compression_mpi" --ranks 2 --bytes 4MiB
fi

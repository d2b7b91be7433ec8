# shellcheck shell=sh disable=SC2154
# Sourced by bench/report/report.sh: the steps of week 23, tensor parallelism: the course's model on two ranks of each machine, then
# d_model and p, machines, and nodes.

tp=$programs/bench_tp
step tp_course "tensor parallelism: the course's model on every machine, simulated" rows "${tp}_sim"
for machine in pcie-box:2,4 dgx-a100:2,4,8 dgx-h100:2,4,8; do
  name=${machine%:*}
  step "tp_width_$name:1" "tensor parallelism over d_model and p on $name, simulated" rows "${tp}_sim" --machine "$name" --ranks "${machine#*:}" \
    --heads 32 --d-model 512,1024,2048,4096,8192 --phantom
done
for machine in dgx-a100-hdr dgx-h100-ndr; do
  step "tp_nodes_$machine:1" "tensor parallelism inside a node and across, simulated on $machine" rows "${tp}_sim" --machine "$machine" \
    --ranks 1,2,4,8,16,32 --heads 32 --d-model 4096 --batch 4 --sequence 2048 --phantom
done
step tp_ring "ring attention: both cuts over the sequence's length, simulated on 4 A100" rows "${tp}_sim" --machine dgx-a100 --ranks 4 --heads 32 --d-model 4096 \
  --ring-attention 2048,4096,8192,16384,32768,65536,131072
if has bench_tp_mpi; then
  few="--layers 2 --heads 4 --batch 2 --vocabulary 512 --dtype fp32"
  for ranks in 2 4; do
    for machine in laptop:25 pcie-box:200; do # emulated, and the same steps simulated
      twin=${machine%:*}_$ranks
      kind=extra
      [ "$twin" != pcie-box_4 ] || kind=step
      # shellcheck disable=SC2086
      $kind "tp_emulated_$twin:$(pick 15 10)" "tensor parallelism, emulated with MPI processes: $ranks on ${machine%:*}" rows mpi "$ranks" "${tp}_mpi" $few --sequence 64 \
        --d-model 64,128,256 --emulate "${machine%:*}" --scale "${machine#*:}" --samples "$(pick 5 3)"
      # shellcheck disable=SC2086
      $kind "tp_twin_$twin" "the same steps, simulated: $ranks on ${machine%:*}" rows "${tp}_sim" $few --sequence 64 --d-model 64,128,256 --ranks "$ranks" \
        --machine "${machine%:*}" --phantom
    done
  done
  # shellcheck disable=SC2086
  step "tp_mpi:$(pick 10 5)" "tensor parallelism, measured on 2 MPI processes" rows mpi 2 "${tp}_mpi" $few --sequence 128 --d-model 128,256 --ranks 2 --samples "$(pick 15 7)"
fi
if has train_sim; then
  for run in "serial:--ranks 1" "4:--ranks 4 --tp 4" "4_rows:--ranks 4 --tp 4 --sequence-parallel"; do
    # shellcheck disable=SC2086
    step "train_tp_${run%%:*}:2" "training on text with ${run#*:}" "$programs/train_sim" ${run#*:} $training --heads 4 --csv "$data/train_tp_${run%%:*}.csv"
  done
fi

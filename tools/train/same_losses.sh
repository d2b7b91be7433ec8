#!/bin/sh
# Trains the same small model serially and on 2 MPI processes, as replicas and as stages: every step's loss must agree
# to rounding.
#   same_losses.sh TRAIN_SIM TRAIN_MPI MPIRUN_SH
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run="--model tiny --steps 30 --batch 9 --warmup 5 --sample 0"
"$1" $run --csv "$folder/serial.csv" >/dev/null
for mesh in "--dp 2 --accumulate 2" "--pp 2 --microbatches 3"; do
  sh "$3" -n 2 --timeout 60 "$2" $run $mesh --csv "$folder/mpi.csv" >/dev/null
  paste -d, "$folder/serial.csv" "$folder/mpi.csv" | awk -F, '
    NR == 1 { half = NF / 2; next }
    { gap = $2 - $(half + 2); if (gap < 0) gap = -gap; if (gap > worst) worst = gap; steps++ }
    END { printf "%d steps, losses differ by at most %.2g\n", steps, worst; exit !(steps == 30 && worst < 5e-4) }'
done
# What would be ignored is refused, by every process and once.
if sh "$3" -n 2 --timeout 60 "$2" $run --machine dgx-h100 >"$folder/out" 2>&1; then
  echo "mpi accepted --machine without --emulate"; exit 1
fi
grep -c "^lab train: --machine is what the simulator prices with" "$folder/out" | grep -qx 1 || { cat "$folder/out"; exit 1; }

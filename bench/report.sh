#!/bin/sh
# ./lab report: runs the reference benchmarks, draws the figures and writes outputs/report/index.html.
#
#   ./lab report [--output DIRECTORY] [--build DIRECTORY]
#
# About three minutes on two cores, the build apart. Without MPI, what needs it is left out and said so; likewise figures without
# matplotlib. A step that fails costs its own section, and the exit code is 1.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/default
out=$root/outputs/report
while [ $# -gt 0 ]; do
  case $1 in
    --output) [ $# -ge 2 ] || { echo "report: --output wants a directory" >&2; exit 2; }; out=$2; shift 2 ;;
    --build) [ $# -ge 2 ] || { echo "report: --build wants a directory" >&2; exit 2; }; build=$2; shift 2 ;;
    -h | --help) sed -n 's/^# \{0,1\}//p' "$0" | sed 1d; exit 0 ;;
    *) echo "report: unknown option '$1'. Known: --output, --build." >&2; exit 2 ;;
  esac
done
data=$out/data
programs=$build/programs
began=$(date +%s)
failures=0

say() { printf '%5ss  %s\n' "$(($(date +%s) - began))" "$*"; }

# step NAME 'what it is' program arguments…: its output goes to data/NAME.log.
step() {
  name=$1 what=$2
  shift 2
  say "$what"
  if ! "$@" > "$data/$name.log" 2>&1; then
    failures=$((failures + 1))
    say "  failed: $(tail -n 1 "$data/$name.log")"
  fi
}
mpi() { # ranks, then program and arguments
  ranks=$1
  shift
  sh "$root/launch/mpirun.sh" -n "$ranks" --timeout 120 "$@"
}
has() { grep -q "^build $1:" "$build/build.ninja"; }

[ -f "$build/build.ninja" ] || { echo "report: $build is not configured; ./lab report does that" >&2; exit 2; }
targets=
for target in bench_all_reduce bench_activations bench_overhead bench_ddp bench_memory bench_scaling bench_zero bench_tp bench_pipeline \
  bench_schedule train; do
  for backend in sim mpi; do
    has "${target}_$backend" && targets="$targets ${target}_$backend"
  done
done
case $targets in
  *bench_all_reduce_sim*) ;;
  *) echo "report: this build has no benchmark programs, because Google Benchmark is missing (./lab setup)" >&2; exit 2 ;;
esac
say "building"
log=$build/report.log
# shellcheck disable=SC2086
cmake --build "$build" --target $targets > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
mkdir -p "$data" "$out/figures" || exit 2
rm -f "$data"/* "$out"/figures/* "$out/index.html" # nothing of an earlier run may pass for this one's

all_reduce=$programs/bench_all_reduce
for machine in pcie-box:4 dgx-a100:8 dgx-h100:8 dgx-a100-hdr:16; do
  name=${machine%:*}
  step "all_reduce_sim_$name" "all-reduce, simulated on $name" "${all_reduce}_sim" --machine "$name" \
    --ranks "${machine#*:}" --bytes 4KiB:512MiB --phantom \
    --json "$data/all_reduce_sim_$name.json" --csv "$data/all_reduce_sim_$name.csv"
done
step speed_phantom "simulator: 1,024 ranks, prices only" "${all_reduce}_sim" --ranks 1024 --bytes 64KiB --algorithm ring \
  --phantom --json "$data/speed_phantom.json" --csv "$data/speed_phantom.csv"
step speed_real "simulator: 1,024 ranks, real data" "${all_reduce}_sim" --ranks 1024 --bytes 64KiB --algorithm ring \
  --json "$data/speed_real.json" --csv "$data/speed_real.csv"
step overhead "overhead of communication, simulated" "$programs/bench_overhead_sim" --ranks 2 \
  --json "$data/overhead.json" --csv "$data/overhead.csv"
for machine in pcie-box:1,2,4 dgx-a100:1,2,4,8 dgx-a100-hdr:1,2,4,8,16,32,64; do
  name=${machine%:*}
  step "scaling_sim_$name" "scaling, simulated on $name" "$programs/bench_scaling_sim" --machine "$name" \
    --ranks "${machine#*:}" --model gpt2-124m --batch 64 --phantom \
    --json "$data/scaling_sim_$name.json" --csv "$data/scaling_sim_$name.csv"
done
for machine in pcie-box:4 dgx-a100:8; do
  name=${machine%:*}
  step "ddp_sim_$name" "DDP step, simulated on $name" "$programs/bench_ddp_sim" --machine "$name" \
    --ranks "${machine#*:}" --model gpt2-124m --batch 8 --phantom --bucket-bytes 1MiB,5MiB,25MiB,100MiB --microbatches 1,4 \
    --json "$data/ddp_sim_$name.json" --csv "$data/ddp_sim_$name.csv"
done
step timeline "DDP timeline with and without overlap" "$programs/bench_ddp_sim" --machine pcie-box --ranks 2 \
  --model gpt2-124m --batch 4 --phantom --bucket-bytes 25MiB --timeline "$out/figures/timeline"

if [ -x "${all_reduce}_mpi" ] && has bench_all_reduce_mpi; then
  step all_reduce_mpi "all-reduce, measured on 2 MPI processes" mpi 2 "${all_reduce}_mpi" --bytes 4KiB:16MiB \
    --json "$data/all_reduce_mpi.json" --csv "$data/all_reduce_mpi.csv"
  step scaling_mpi "scaling, measured on MPI processes" mpi 2 "$programs/bench_scaling_mpi" --ranks 1,2 --model small --batch 16 \
    --json "$data/scaling_mpi.json" --csv "$data/scaling_mpi.csv"
  step ddp_mpi "DDP step, measured on 2 MPI processes" mpi 2 "$programs/bench_ddp_mpi" --ranks 2 --model small --batch 4 \
    --json "$data/ddp_mpi.json" --csv "$data/ddp_mpi.csv"
  step ddp_laptop "the same step, simulated" "$programs/bench_ddp_sim" --machine laptop --ranks 4 --model tiny --batch 4 \
    --json "$data/ddp_laptop.json" --csv "$data/ddp_laptop.csv"
  step ddp_emulated "DDP step, emulated with 4 MPI processes" mpi 4 "$programs/bench_ddp_mpi" --ranks 4 --model tiny --batch 4 \
    --emulate laptop --scale 20 --samples 11 --json "$data/ddp_emulated.json" --csv "$data/ddp_emulated.csv"
else
  say "no MPI in this build: what is measured on processes is left out"
fi

training="--steps 120 --model tiny --batch 32 --log-every 1 --sample 0"
if has train_sim; then
  # shellcheck disable=SC2086
  step train_serial "training on text, serial" "$programs/train_sim" --ranks 1 $training --csv "$data/train_serial.csv"
  if has train_mpi; then
    # shellcheck disable=SC2086
    step train_ddp "training on text, DDP on 2 MPI processes" mpi 2 "$programs/train_mpi" $training --csv "$data/train_ddp.csv"
  else
    # shellcheck disable=SC2086
    step train_ddp "training on text, DDP on 2 simulated ranks" "$programs/train_sim" --ranks 2 $training --csv "$data/train_ddp.csv"
  fi
fi

step memory "memory by ZeRO stage, calculated" "$programs/bench_memory_sim" --params 7e9,13e9,175e9 \
  --ranks 1,2,4,8,16,32,64,128,256,512,1024 --json "$data/memory.json" --csv "$data/memory.csv"
step zero_memory "ZeRO's stages weighed, really allocated" "$programs/bench_zero_sim" --model small --ranks 1,2,4,8 --sequence 16 \
  --memory-only --json "$data/zero_memory.json" --csv "$data/zero_memory.csv"
for machine in pcie-box:4 dgx-a100:8 dgx-a100-10gbe:16; do
  for tokens in 2048 4096 8192; do
    name=${machine%:*}_$tokens
    step "zero_sim_$name" "ZeRO's stages on ${machine%:*}, $tokens tokens a rank, simulated" "$programs/bench_zero_sim" --model gpt2-355m --phantom \
      --machine "${machine%:*}" --ranks "${machine#*:}" --batch 4 --sequence $((tokens / 4)) --json "$data/zero_sim_$name.json" --csv "$data/zero_sim_$name.csv"
  done
done
if has bench_zero_mpi; then
  step zero_mpi "ZeRO's stages, measured on 2 MPI processes" mpi 2 "$programs/bench_zero_mpi" --ranks 2 --params 5e6 --dtype fp32 --sequence 16 \
    --samples 15 --json "$data/zero_mpi.json" --csv "$data/zero_mpi.csv"
  step zero_emulated "plain DDP and ZeRO-3, emulated with 4 MPI processes" mpi 4 "$programs/bench_zero_mpi" --ranks 4 --model small --batch 8 \
    --stages 0,3 --emulate laptop --scale 10 --samples 3 --json "$data/zero_emulated.json" --csv "$data/zero_emulated.csv"
fi
step activations "activations by what is recomputed, simulated" "$programs/bench_activations_sim" --model gpt2-124m --batch 8 \
  --machine dgx-a100 --phantom --json "$data/activations.json" --csv "$data/activations.csv"
if has train_sim; then
  low="--loss-scale 2^-17 --loss-scale-interval" # gradients as small as those of a batch 2^17 times as large
  for run in fp32 bf16 fp16 "fp16_low:$low 100000" "fp16_low_grows:$low 4"; do
    name=${run%%:*} more=
    case $run in *:*) more=${run#*:} ;; esac
    # shellcheck disable=SC2086
    step "precision_$name" "training on text in $(echo "$name" | tr _ ' ')" "$programs/train_sim" --backend serial --model tiny --steps 300 \
      --batch 8 --warmup 10 --lr 1e-2 --log-every 1 --sample 0 --precision "${name%%_*}" $more --csv "$data/precision_$name.csv"
  done
fi

# Week 23: the course's model on two ranks of each machine, then d_model and p, machines, and nodes.
tp=$programs/bench_tp
step tp_course "tensor parallelism: the course's model on every machine, simulated" "${tp}_sim" --json "$data/tp_course.json" --csv "$data/tp_course.csv"
for machine in pcie-box:2,4 dgx-a100:2,4,8 dgx-h100:2,4,8; do
  name=${machine%:*}
  step "tp_width_$name" "tensor parallelism over d_model and p on $name, simulated" "${tp}_sim" --machine "$name" --ranks "${machine#*:}" \
    --heads 32 --d-model 512,1024,2048,4096,8192 --phantom --json "$data/tp_width_$name.json" --csv "$data/tp_width_$name.csv"
done
for machine in dgx-a100-hdr dgx-h100-ndr; do
  step "tp_nodes_$machine" "tensor parallelism inside a node and across, simulated on $machine" "${tp}_sim" --machine "$machine" \
    --ranks 1,2,4,8,16,32 --heads 32 --d-model 4096 --batch 4 --sequence 2048 --phantom --json "$data/tp_nodes_$machine.json" --csv "$data/tp_nodes_$machine.csv"
done
step tp_published "tensor parallelism: Megatron's published times" "${tp}_sim" --machine dgx-a100 --ranks 8 --published --phantom \
  --json "$data/tp_published.json" --csv "$data/tp_published.csv"
if has bench_tp_mpi; then
  few="--layers 2 --heads 4 --batch 2 --vocabulary 512 --dtype fp32"
  for ranks in 2 4; do
    for machine in laptop:25 pcie-box:200; do # emulated, and the same steps simulated
      twin=${machine%:*}_$ranks
      # shellcheck disable=SC2086
      step "tp_emulated_$twin" "tensor parallelism, emulated with $ranks MPI processes on ${machine%:*}" mpi "$ranks" "${tp}_mpi" $few --sequence 64 \
        --d-model 64,128,256 --emulate "${machine%:*}" --scale "${machine#*:}" --samples 5 --json "$data/tp_emulated_$twin.json" --csv "$data/tp_emulated_$twin.csv"
      # shellcheck disable=SC2086
      step "tp_twin_$twin" "the same steps, simulated" "${tp}_sim" $few --sequence 64 --d-model 64,128,256 --ranks "$ranks" \
        --machine "${machine%:*}" --phantom --json "$data/tp_twin_$twin.json" --csv "$data/tp_twin_$twin.csv"
    done
  done
  # shellcheck disable=SC2086
  step tp_mpi "tensor parallelism, measured on 2 MPI processes" mpi 2 "${tp}_mpi" $few --sequence 128 --d-model 128,256 --ranks 2 --samples 15 \
    --json "$data/tp_mpi.json" --csv "$data/tp_mpi.csv"
fi
if has train_sim; then
  for run in "serial:--ranks 1" "4:--ranks 4 --tp 4" "4_rows:--ranks 4 --tp 4 --sequence-parallel"; do
    # shellcheck disable=SC2086
    step "train_tp_${run%%:*}" "training on text with ${run#*:}" "$programs/train_sim" ${run#*:} $training --heads 4 --csv "$data/train_tp_${run%%:*}.csv"
  done
fi

# Week 24: every bubble; where stages are unequal or hops take time; two and four real processes; published rates; charts.
pipeline=$programs/bench_pipeline
step pipeline "bubbles of all schedules, simulated" "${pipeline}_sim" --json "$data/pipeline.json" --csv "$data/pipeline.csv"
step pipeline_hops "pipelines whose hops take time, simulated" "${pipeline}_sim" --stages 4 --microbatches 32 --comm-ms 0,0.05,0.1,0.2,0.3,0.4 \
  --schedule gpipe,1f1b,interleaved,zb-h1 --json "$data/pipeline_hops.json" --csv "$data/pipeline_hops.csv"
step pipeline_unequal "pipelines of unequal stages, simulated" "${pipeline}_sim" --stages 4 --microbatches 8 --comm-ms 0 --last-stage 1,1.25,1.5,2,3 \
  --schedule gpipe,1f1b,interleaved,zb-h1 --json "$data/pipeline_unequal.json" --csv "$data/pipeline_unequal.csv"
step pipeline_published "bubble rates that were published" "${pipeline}_sim" --published --json "$data/pipeline_published.json" --csv "$data/pipeline_published.csv"
if has bench_pipeline_mpi; then
  for run in 2:1,4,8:gpipe,1f1b 4:4,8,16:gpipe,1f1b,interleaved,zb-h1; do
    ranks=${run%%:*} rest=${run#*:}
    step "pipeline_wall_$ranks" "bubbles by wall clock, $ranks MPI processes emulated" mpi "$ranks" "${pipeline}_mpi" --microbatches "${rest%:*}" \
      --schedule "${rest#*:}" --comm-ms 0 --forward-ms 15 --backward-ms 15 --weight-ms 15 --json "$data/pipeline_wall_$ranks.json" --csv "$data/pipeline_wall_$ranks.csv"
  done
fi
if has train_sim; then
  staged="--steps 60 --model tiny --layers 8 --batch 32 --accumulate 8 --log-every 1 --sample 0"
  for run in serial:1 gpipe:4 1f1b:4 zb-h1:4; do
    stages=${run#*:} options=
    [ "$stages" = 1 ] || options="--pp $stages --schedule ${run%:*}"
    # shellcheck disable=SC2086
    step "train_pp_${run%:*}" "training on text in $stages stages${options:+, ${run%:*}}" "$programs/train_sim" --ranks "$stages" $options $staged \
      --json "$data/train_pp_${run%:*}.json" --csv "$data/train_pp_${run%:*}.csv"
  done
fi
for schedule in naive gpipe 1f1b interleaved zb-h1 zb-h2; do
  step "schedule_$schedule" "timeline of $schedule, simulated" "$programs/bench_schedule_sim" --stages 4 --microbatches 8 --comm-ms 0.1 --schedule $schedule \
    --svg "$out/figures/schedule_$schedule.svg" --trace "$data/schedule_$schedule.trace" --json "$data/schedule_$schedule.json"
done

# The first python3 on PATH may not see the system's packages.
python= plain=
for candidate in "${LOCKSTEP_PYTHON:-}" /usr/bin/python3 python3 /usr/local/bin/python3; do
  [ -n "$candidate" ] && command -v "$candidate" > /dev/null 2>&1 || continue
  plain=${plain:-$candidate}
  if "$candidate" -c 'import matplotlib' > /dev/null 2>&1; then
    python=$candidate
    break
  fi
done
if [ -n "$python" ]; then
  say "drawing figures"
  "$python" -B "$root/bench/plots/figures.py" "$out" || failures=$((failures + 1))
else
  say "no Python with matplotlib: the figures are left out, the numbers are written"
fi
if [ -z "$plain" ]; then
  say "no python3: no page; the numbers are in ${data#"$root"/}"
  exit 1
fi
if "$plain" -B "$root/bench/plots/page.py" "$out" "$root"; then
  say "wrote ${out#"$root"/}/index.html"
else
  failures=$((failures + 1))
fi
[ "$failures" -eq 0 ] || say "$failures steps failed; their logs are in ${data#"$root"/}"
[ "$failures" -eq 0 ]

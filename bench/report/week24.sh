# shellcheck shell=sh disable=SC2154
# Sourced by bench/report/report.sh: the steps of week 24, pipelines: every bubble; where stages are unequal or hops take time; two and four
# real processes; charts.

pipeline=$programs/bench_pipeline
step pipeline "bubbles of all schedules, simulated" rows "${pipeline}_sim"
step pipeline_hops "pipelines whose hops take time, simulated" rows "${pipeline}_sim" --stages 4 --microbatches 32 --comm-ms 0,0.05,0.1,0.2,0.3,0.4 \
  --schedule gpipe,1f1b,interleaved,zb-h1
step pipeline_unequal "pipelines of unequal stages, simulated" rows "${pipeline}_sim" --stages 4 --microbatches 8 --comm-ms 0 --last-stage 1,1.25,1.5,2,3 \
  --schedule gpipe,1f1b,interleaved,zb-h1
if has bench_pipeline_mpi; then
  for run in 2:1,4,8:gpipe,1f1b 4:4,8,16:gpipe,1f1b,interleaved,zb-h1; do
    ranks=${run%%:*} rest=${run#*:}
    step "pipeline_wall_$ranks:$((2 * ranks))" "bubbles by wall clock, $ranks MPI processes emulated" rows mpi "$ranks" "${pipeline}_mpi" --microbatches "${rest%:*}" \
      --schedule "${rest#*:}" --comm-ms 0 --forward-ms 15 --backward-ms 15 --weight-ms 15
  done
fi
if has train_sim; then
  staged="--steps 60 --model tiny --layers 8 --batch 32 --accumulate 8 --log-every 1 --sample 0"
  for run in serial:1 gpipe:4 1f1b:4 zb-h1:4; do
    stages=${run#*:} options=
    [ "$stages" = 1 ] || options="--pp $stages --schedule ${run%:*}"
    # shellcheck disable=SC2086
    step "train_pp_${run%:*}:2" "training on text, ${options:+4 stages, }${run%:*}" rows "$programs/train_sim" --ranks "$stages" $options $staged
  done
fi
for schedule in naive gpipe 1f1b interleaved zb-h1 zb-h2 zb-v dualpipev; do
  step "schedule_$schedule" "timeline of $schedule, simulated" "$programs/bench_schedule_sim" --stages 4 --microbatches 8 --comm-ms 0.1 --schedule $schedule \
    --trace "$data/schedule_$schedule.trace" --json "$data/schedule_$schedule.json"
done

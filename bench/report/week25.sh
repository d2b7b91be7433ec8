# shellcheck shell=sh disable=SC2154
# Sourced by bench/report/report.sh: the steps of week 25: the planner against the simulator and published times, steps of models that no
# computer here could hold, every small mesh against the serial program, what limits planted runs, and scaling.

step "plan_gpt3:$(pick 16 13)" "the planner: GPT-3 on 1,024 A100, the best simulated" rows "$programs/plan_sim" --model gpt3-175b --cluster dgx-a100x128 \
  --global-batch 1536 --simulate "$(pick 4 2)"
step validate "published runs and curves, predicted" rows "$programs/plan_sim" --validate
if has train_sim; then
  for run in "1t:--model gpt-1t --tp 8 --pp 64 --batch 512 --microbatches 512 --sequence-parallel" \
    "530b:--model gpt-530b --tp 8 --pp 35 --schedule interleaved --chunks 3 --batch 280 --microbatches 280 --sequence-parallel" \
    "175b:--model gpt3-175b --ranks 1024 --tp 8 --pp 16 --batch 1536 --microbatches 192"; do
    # shellcheck disable=SC2086
    step "phantom_${run%%:*}:2" "a step of a model of ${run%%:*} parameters, simulated" "$programs/train_sim" --phantom --machine dgx-a100-hdr \
      --precision bf16 ${run#*:} --json "$data/phantom_${run%%:*}.json"
  done

  # Every mesh of 1, 2, 4 and 8 ranks.
  for mesh in 1_1_1 2_1_1 1_2_1 1_1_2 4_1_1 1_4_1 1_1_4 2_2_1 2_1_2 1_2_2 8_1_1 1_8_1 1_1_8 4_2_1 2_4_1 4_1_2 2_1_4 1_4_2 1_2_4 2_2_2; do
    dp=${mesh%%_*} pp=${mesh##*_} tp=${mesh#*_}
    tp=${tp%_*}
    step "mesh_$mesh:1" "training on text, mesh ($dp, $tp, $pp)" rows "$programs/train_sim" --ranks $((dp * tp * pp)) --tp "$tp" --pp "$pp" --steps "$(pick 40 20)" --model tiny \
      --heads 8 --layers 6 --batch 16 --microbatches 2 --log-every 1 --sample 0
  done
fi
if has why; then
  # Four runs with a bottleneck planted in each.
  for run in "communication:--ranks 4 --model gpt2-124m --machine pcie-box-10gbe --no-overlap --batch 8" \
    "bubble:--ranks 4 --pp 4 --every-rank --model gpt2-124m --precision bf16 --machine dgx-a100 --batch 4 --microbatches 4" \
    "imbalance:--ranks 4 --model gpt2-355m --precision bf16 --machine dgx-a100 --batch 5" \
    "launch:--ranks 2 --model tiny --d-model 16 --heads 2 --sequence 16 --precision bf16 --machine dgx-h100 --batch 2"; do
    limit=${run%%:*}
    # shellcheck disable=SC2086
    step "trace_$limit" "a run limited by $limit, traced" "$programs/train_sim" --phantom --steps 3 --sample 0 ${run#*:} --trace "$data/trace_$limit.trace"
  done
  settle
  for limit in communication bubble imbalance launch; do
    step "why_$limit" "what limits it" "$programs/why" why "$data/trace_$limit.trace" --json "$data/why_$limit.json"
  done
fi
for run in "strong:--strong --batch 32" "strong_zero1:--strong --batch 32 --zero 1" "weak:--weak --batch 8"; do
  # shellcheck disable=SC2086
  step "scale_${run%%:*}" "scaling of GPT-2 355M, ${run#*:}, simulated" "$programs/scale_sim" ${run#*:} --ranks 2,4,8,16 --machine dgx-a100-hdr \
    --model gpt2-355m --precision bf16 --json "$data/scale_${run%%:*}.json"
done
step scale_mpi "scaling, measured on 2 MPI processes" mpi 2 "$programs/scale_mpi" --strong --ranks 1,2 --model small --batch 8 --json "$data/scale_mpi.json"

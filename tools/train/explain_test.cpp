// ./lab train --explain-as: the printed commands for other software describe the same run, and list the differences.
#include "tools/train/explain.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "common/support/json/document.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

TrainRequest meshed(int dp, int tp, int pp) {
  TrainRequest options = small_run();
  options.batch = 24;
  set_mesh(options, dp, tp, pp);
  return options;
}

std::string text_of(const std::string& program, const TrainRequest& options) {
  return explanation_text(explain_as(program, make_plan(options, 0)));
}

std::string file_of(const Explanation& explanation, const std::string& name) {
  for (const Explanation::File& file : explanation.files)
    if (file.name == name) return file.text;
  ADD_FAILURE() << "no " << name;
  return "";
}

void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), text.npos) << part << " is not in\n" << text;
}
void expect_none(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_EQ(text.find(part), text.npos) << part << " is in\n" << text;
}

TEST(ExplainAs, TorchrunOfEachZeroStage) {
  TrainRequest options = meshed(3, 1, 1);
  options.microbatches = 2;
  expect_all(text_of("torchrun", options),
             {"--nproc-per-node 3", "DistributedDataParallel(", "require_backward_grad_sync = i == 1",
              "AdamW(gpt.groups_of(model), lr=0.003", "sequences of 16 tokens", "2 microbatches of 4"});
  options.microbatches = 1;
  expect_all(text_of("torchrun", options), {"# 1 microbatch of 8 sequences"});
  options.microbatches = 2;
  options.zero = 1;
  expect_all(text_of("torchrun", options),
             {"ZeroRedundancyOptimizer(gpt.groups_of(model), optimizer_class=torch.optim.AdamW"});
  options.zero = 2;
  expect_all(text_of("torchrun", options), {"fully_shard(block", "\"reshard_after_forward\": False"});
  options.zero = 3;
  options.precision = "bf16";
  options.reduce = "fp32";
  const std::string sharded = text_of("torchrun", options);
  expect_all(sharded, {"\"reshard_after_forward\": True", "param_dtype=torch.bfloat16, reduce_dtype=torch.float32"});
  expect_none(sharded, {"DistributedDataParallel", "autocast"});
}

TEST(ExplainAs, Dropout) {
  TrainRequest options = meshed(2, 1, 1);
  expect_none(text_of("torchrun", options), {"--dropout"});
  expect_all(text_of("megatron", options), {"--attention-dropout 0 --hidden-dropout 0 "});
  options.dropout = 0.1;
  for (const char* program : {"torchrun", "accelerate", "deepspeed"})
    expect_all(text_of(program, options), {"--dropout 0.1: gpt.py drops nothing."});
  expect_all(text_of("megatron", options), {"--attention-dropout 0 --hidden-dropout 0.1 "});
}

TEST(ExplainAs, TorchrunOfAMesh) {
  TrainRequest options = meshed(2, 2, 2);
  options.sequence_parallel = true;
  options.schedule = "gpipe";
  options.recompute = "full";
  expect_all(text_of("torchrun", options),
             {"(2, 2, 2), mesh_dim_names=(\"pp\", \"dp\", \"tp\")", "ColwiseParallel()", "SequenceParallel()",
              "checkpoint_wrapper", "ScheduleGPipe(stages[0], n_microbatches=8"});
}

TEST(ExplainAs, SharedSequences) {
  TrainRequest options = meshed(2, 1, 1);
  options.cp = 2;
  options.microbatches = 3;
  options.precision = "bf16";
  expect_all(text_of("torchrun", options),
             {"--nproc-per-node 4", "(1, 2, 2, 1), mesh_dim_names=(\"pp\", \"dp\", \"cp\", \"tp\")",
              "data = mesh[\"dp\", \"cp\"]._flatten(\"data\")", "process_group=data.get_group()",
              "\n        with context_parallel(mesh[\"cp\"]", "\n            with torch.autocast(",
              "\n                part = gpt.loss_of(", "\n            part.backward()", "microbatches of 4 sequences"});
  expect_all(text_of("megatron", options),
             {"CUDA_DEVICE_MAX_CONNECTIONS=1 ", "--context-parallel-size 2", "--global-batch-size 24"});
  const Explanation deepspeed = explain_as("deepspeed", make_plan(options, 0));
  EXPECT_EQ(Json::parse(file_of(deepspeed, "ds_config.json")).at("train_batch_size").get<int>(), 24);
  expect_all(explanation_text(deepspeed), {"--cp 2: DeepSpeed has no ring attention"});
}

TEST(ExplainAs, OuterSteps) {
  TrainRequest options = meshed(2, 1, 1);
  options.outer_steps = 8;
  expect_none(text_of("torchrun", options), {"DistributedDataParallel", "require_backward_grad_sync"});
  for (const char* program : {"torchrun", "accelerate", "deepspeed", "megatron"})
    expect_all(text_of(program, options), {"of torchft.local_sgd"});
}

TEST(ExplainAs, HybridSharding) {
  TrainRequest options = meshed(8, 1, 1);
  options.zero = 3;
  options.shard_group = 4;
  expect_all(text_of("torchrun", options), {"(1, 2, 4, 1), mesh_dim_names=(\"pp\", \"replicate\", \"shard\", \"tp\")",
                                            "\"mesh\": mesh[\"replicate\", \"shard\"]"});
  expect_all(text_of("deepspeed", options), {"\"mics_shard_size\": 4", "MiCS_Init"});
  expect_all(text_of("megatron", options), {"--shard-group 4"});
}

TEST(ExplainAs, DeepSpeedsFileIsJsonAndItsBatchIsOurs) {
  for (const int zero : {0, 1, 2, 3})
    for (const char* precision : {"fp32", "bf16", "fp16"}) {
      TrainRequest options = meshed(4, 1, 1);
      options.microbatches = 3;
      options.zero = zero;
      options.precision = precision;
      options.bucket_bytes = "40000";
      const Json config = Json::parse(file_of(explain_as("deepspeed", make_plan(options, 0)), "ds_config.json"));
      const auto count = [&](const char* name) { return config.at(name).get<int>(); };
      EXPECT_EQ(count("train_batch_size"), 24);
      EXPECT_EQ(count("train_micro_batch_size_per_gpu") * count("gradient_accumulation_steps") * 4, 24);
      EXPECT_EQ(config.at("zero_optimization").at("stage").get<int>(), zero);
      if (zero > 0) {
        EXPECT_EQ(config.at("zero_optimization").at("reduce_bucket_size").get<int>(),
                  precision[0] == 'b' || precision[2] == '1' ? 20000 : 10000);
      }
      EXPECT_EQ(config.contains("bf16"), std::string(precision) == "bf16");
      EXPECT_EQ(config.contains("fp16"), std::string(precision) == "fp16");
    }
}

TEST(ExplainAs, DeepSpeedsWarmUpIsLate) {
  TrainRequest options = meshed(2, 1, 1);
  expect_all(text_of("deepspeed", options),
             {"\"warmup_num_steps\": 100", "--warmup: DeepSpeed's rate is two steps late"});
  expect_none(text_of("deepspeed", options), {"for at least two steps"});
  options.warmup = 0;
  expect_all(text_of("deepspeed", options),
             {"\"warmup_num_steps\": 2", "--warmup 0: DeepSpeed warms up for at least two"});
}

TEST(ExplainAs, TheModelsFileHasTheRunsNumbers) {
  TrainRequest options = meshed(2, 1, 1);
  options.model = "tiny-llama";
  options.steps = 7;
  const std::string text = file_of(explain_as("torchrun", make_plan(options, 0)), "gpt.py");
  expect_all(text,
             {"# The model and the text: put your own here.\nimport itertools\n",
              "\nfrom torch import nn\n\nTEXT = ", "\nRMS_NORM, SWIGLU, BIAS, ROPE_BASE = True, True, False, 500000\n",
              "\nSTEPS, WARMUP, WEIGHT_DECAY, SEED = 7, ", "\n\npositions = torch.arange(SEQUENCE)"});
  expect_none(text.substr(text.find("SEED = 7") + 1), {"SEED = "});
}

TEST(ExplainAs, MegatronsLine) {
  TrainRequest options = meshed(2, 2, 2);
  options.layers = 8;
  options.schedule = "interleaved";
  options.microbatches = 4;
  options.zero = 1;
  options.overlap_gather = true;
  options.bucket_bytes = "80000";
  options.recompute = "full";
  const std::string text = text_of("megatron", options);
  expect_all(text,
             {"torchrun --standalone --nproc-per-node 8 pretrain_gpt.py", "--num-layers 8", "--micro-batch-size 3",
              "--global-batch-size 24", "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun", "--tensor-model-parallel-size 2",
              "--pipeline-model-parallel-size 2", "--num-layers-per-virtual-pipeline-stage 2",
              "--use-distributed-optimizer", "--ddp-bucket-size 20000", "--overlap-param-gather",
              "--recompute-granularity full", "--lr 0.003 --min-lr 0.0003 "});
  expect_none(text, {"this line uses 1F1B", "do not divide over", "--swiglu", "--disable-bias-linear", "RMSNorm"});
  options = meshed(2, 2, 1);
  options.model = "tiny-llama";
  expect_all(text_of("megatron", options),
             {"--normalization RMSNorm", "--position-embedding-type rope", "--rotary-base 500000", "--swiglu",
              "--ffn-hidden-size 176", "--group-query-attention --num-query-groups 2", "--disable-bias-linear",
              "--untie-embeddings-and-output-weights"});
}

TEST(ExplainAs, WhatHasNoEquivalentIsSaid) {
  TrainRequest options = meshed(2, 1, 2);
  options.schedule = "zb-h1";
  expect_all(text_of("megatron", options), {"--schedule zb-h1: Megatron-LM has 1F1B"});
  expect_all(text_of("deepspeed", options), {"PipelineModule(layers, num_stages=2"});
  options.schedule = "zb-v";
  expect_none(text_of("megatron", options), {"--num-layers-per-virtual-pipeline-stage", "CUDA_DEVICE_MAX_CONNECTIONS"});
  options.schedule = "dualpipev", options.microbatches = 4;
  expect_all(text_of("torchrun", options), {"ScheduleDualPipeV(stages", "mine = [stage, parts - 1 - stage]"});
  expect_none(text_of("torchrun", options), {"as many microbatches as there are parts"});
  options.microbatches = 3;
  expect_all(text_of("torchrun", options), {"as many microbatches as there are parts"});
  options = meshed(1, 2, 1);
  options.sequence_parallel = true;
  expect_all(text_of("megatron", options), {"Without --overlap-scatter: "});
  options.overlap_scatter = true;
  expect_all(text_of("torchrun", options), {"--overlap-scatter: "});
  expect_all(text_of("deepspeed", options), {"--overlap-scatter: "});
  expect_none(text_of("megatron", options), {"--overlap-scatter"});
  options = meshed(2, 1, 1);
  options.zero = 1;
  options.overlap_gather = true;
  expect_all(text_of("torchrun", options), {"--overlap-gather: "});
  expect_all(text_of("deepspeed", options), {"--overlap-gather: "});
  expect_none(text_of("megatron", options), {"--overlap-gather"});
  options.zero = 2;
  expect_all(text_of("torchrun", options), {"--overlap-gather: "});
  options = meshed(2, 1, 1);
  options.zero = 3;
  expect_all(text_of("megatron", options), {"--zero 3: its distributed optimizer is stage 1", "optim_grads_params"});
  options.warmup = options.steps;
  options.precision = options.reduce = "bf16";
  expect_all(text_of("megatron", options), {"a warm-up that is as long as the run", "--bf16", "--grad-reduce-in-bf16"});
  options = meshed(2, 1, 1);
  options.compress = "topk:0.1";
  for (const char* program : {"torchrun", "deepspeed", "megatron"})
    expect_all(text_of(program, options), {"--compress"});
  options = meshed(2, 1, 1);
  options.batch = 10;
  options.microbatches = 4;
  expect_all(text_of("megatron", options), {"Microbatches of unequal size"});
}

TEST(ExplainAs, AcceleratesFileHasTheStrategy) {
  TrainRequest options = meshed(8, 1, 1);
  options.microbatches = 3;
  expect_all(text_of("accelerate", options), {"distributed_type: MULTI_GPU\n", "num_processes: 8\n", "num_steps=3,"});
  options.zero = 1;
  expect_all(text_of("accelerate", options), {"distributed_type: DEEPSPEED\n", "zero_stage: 1\n"});
  options.zero = 3;
  options.shard_group = 4;
  options.precision = "bf16";
  expect_all(text_of("accelerate", options),
             {"distributed_type: FSDP\n", "mixed_precision: bf16\n", "fsdp_reshard_after_forward: true\n",
              "parallelism_config_dp_replicate_size: 2\n", "parallelism_config_dp_shard_size: 4\n"});
  expect_all(text_of("accelerate", meshed(2, 2, 2)), {"num_processes: 2\n", "this run is without"});
}

std::string refused(const std::string& program) {
  return refusal([&] { explain_as(program, make_plan(meshed(2, 1, 1), 0)); });
}

TEST(ExplainAs, OlderProgramsHaveALineEach) {
  for (const auto& [program, says] : {std::pair{"fairscale", "moved into PyTorch"}, {"colossalai", "GeminiPlugin"}})
    EXPECT_NE(refused(program).find(says), std::string::npos) << refused(program);
}

TEST(ExplainAs, ExpertsAreRefused) {
  TrainRequest options = meshed(2, 1, 1);
  options.model = "tiny-moe";
  options.explain_as = "torchrun";
  const std::string says = refusal([&] { make_plan(options, 0); });
  EXPECT_NE(says.find("the printed programs have no experts"), says.npos) << says;
}

TEST(ExplainAs, AnotherProgramIsRefused) { EXPECT_NE(refused("megatrom").find("megatron"), std::string::npos); }

}  // namespace
}  // namespace lockstep::train

// --explain-as megatron: all is in Megatron-LM's command line.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/support/json/document.hpp"
#include "tools/train/explain_parts.hpp"

namespace lockstep::train {
namespace {

// A launch line, one option to a line.
class Launch {
 public:
  explicit Launch(std::string program) : line(std::move(program)) {}
  void add(const std::string& option, const std::string& value = "") {
    line += " \\\n    " + option + (value.empty() ? "" : " " + value);
  }
  std::string line;
};

std::string number(auto value) { return fmt::format("{}", value); }

std::size_t parts_of(const week25::Options3d& o) {
  return static_cast<std::size_t>(o.mesh.pp) * static_cast<std::size_t>(o.chunks);
}

/// Adds the options of a block that differs from GPT-2's.
void add_block(Launch& launch, const GptConfig& model) {
  const Architecture& a = model.architecture;
  if (a.norm == NormKind::rms_norm) launch.add("--normalization RMSNorm");
  if (a.positions == PositionKind::rotary)
    launch.add("--position-embedding-type rope", fmt::format("--rotary-base {}", a.rope_base));
  if (a.mlp == MlpKind::swiglu) launch.add("--swiglu");
  // Its own width for SwiGLU is two thirds of 4 C.
  if (a.ffn > 0 || a.mlp == MlpKind::swiglu) launch.add("--ffn-hidden-size", number(a.mlp_width(model.d_model)));
  if (const std::size_t groups = a.key_value_heads(model.heads); groups != model.heads)
    launch.add("--group-query-attention --num-query-groups", number(groups));
  if (!a.biases) launch.add("--disable-bias-linear");
}

void add_model_and_optimizer(Launch& launch, const Facts& f) {
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  const auto add = [&](const auto&... words) { launch.add(words...); };
  add("--num-layers", number(o.model.layers));
  add("--hidden-size", number(o.model.d_model));
  add("--num-attention-heads", number(o.model.heads));
  add("--seq-length", number(o.sequence));
  add("--max-position-embeddings", number(o.model.context));
  add_block(launch, o.model);
  if (!o.model.tied_head) add("--untie-embeddings-and-output-weights");
  add("--attention-dropout 0 --hidden-dropout", number(r.dropout));
  if (o.model.attention == AttentionKind::flash) add("--use-flash-attn");
  add("--micro-batch-size", number(f.micro));
  add("--global-batch-size",
      number(static_cast<std::size_t>(o.microbatches) * f.micro * static_cast<std::size_t>(o.replicas())));
  add("--train-iters", number(r.steps));
  add("--lr", fmt::format("{} --min-lr {:g} --lr-decay-style cosine --lr-decay-iters {} --lr-warmup-iters {}",
                          r.learning_rate, r.learning_rate / 10, r.steps, r.warmup));
  add("--optimizer", f.adamw ? "adam --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-8" : "sgd --sgd-momentum 0.9");
  add("--weight-decay", fmt::format("{} --clip-grad {}", f.weight_decay, r.clip));
  add("--seed", number(o.seed));
}

void add_precision(Launch& launch, const Facts& f) {
  const week25::Options3d& o = f.o;
  const auto add = [&](const auto&... words) { launch.add(words...); };
  if (f.brain) add("--bf16");
  if (f.brain && o.reduce != DType::f32) add("--grad-reduce-in-bf16");
  if (f.half) {
    add("--fp16");
    if (o.loss_scale)
      add("--initial-loss-scale",
          fmt::format("{} --loss-scale-window {} --hysteresis 1", *o.loss_scale, o.loss_scale_interval));
    else
      add("--loss-scale 1");
  }
  if (f.half && o.reduce == DType::f32) add("--accumulate-allreduce-grads-in-fp32");
}

void add_parallelism(Launch& launch, const week25::Options3d& o) {
  const auto add = [&](const auto&... words) { launch.add(words...); };
  if (o.mesh.tp > 1) add("--tensor-model-parallel-size", number(o.mesh.tp));
  if (o.sequence_parallel) add("--sequence-parallel");
  if (o.cp > 1) add("--context-parallel-size", number(o.cp) + " --cp-comm-type p2p");
  if (o.mesh.pp > 1) add("--pipeline-model-parallel-size", number(o.mesh.pp));
  if (o.mesh.pp > 1 && o.schedule == "interleaved")
    add("--num-layers-per-virtual-pipeline-stage", number(std::max<std::size_t>(1, o.model.layers / parts_of(o))));
  if (o.zero == 1 && o.data_ranks() > 1) add("--use-distributed-optimizer");
  if (o.data_ranks() > 1 && o.overlap)
    add("--overlap-grad-reduce --ddp-bucket-size", number(o.bucket_bytes / bytes_of(o.reduce)));
  if (o.zero == 1 && o.data_ranks() > 1 && o.overlap_gather) add("--overlap-param-gather");
  if (o.recompute == week22::Recompute::full)
    add("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  if (o.recompute == week22::Recompute::selective) add("--recompute-granularity selective");
}

/// Numbers instead of words, which its NullTokenizer reads.
std::string prepare_file(const TrainPlan& plan) {
  return fmt::format(
      R"py(# The bytes of a text, as lines of JSON of numbers. The last one ends a document.
import json
import os

with open(os.environ.get("TEXT", {}), "rb") as file:
    text = file.read()
with open("text.jsonl", "w") as lines:
    for first in range(0, len(text), 100000):
        lines.write(json.dumps({{"text": " ".join(map(str, text[first : first + 100000]))}}) + "\n")
)py",
      Json::of(std::string_view(text_file(plan))).dump());
}

std::string vocabulary_of(const TrainPlan& plan) {
  return number(std::max<std::size_t>(256, plan.step.model.vocabulary) + 1);  // the last one ends a document
}

std::string prepare_lines(const TrainPlan& plan) {
  return fmt::format(
      "# In a clone of Megatron-LM, which has init, sampler, checkpoints and tear-down.\n"
      "python3 prepare.py\n"
      "python3 tools/preprocess_data.py --input text.jsonl --output-prefix text --tokenizer-type NullTokenizer \\\n"
      "    --vocab-size {} --workers 1 --append-eod\n",
      vocabulary_of(plan));
}

void add_data_and_files(Launch& launch, const TrainPlan& plan) {
  const TrainRequest& r = plan.request;
  const auto add = [&](const auto&... words) { launch.add(words...); };
  add("--data-path", "text_text_document --tokenizer-type NullTokenizer --vocab-size " + vocabulary_of(plan));
  add("--split", "90,10,0");
  add("--log-interval", fmt::format("{} --eval-interval {} --eval-iters 2", plan.log_every, plan.validate_every));
  add("--save", fmt::format("checkpoint --load checkpoint --save-interval {}",
                            r.checkpoint_every > 0 ? r.checkpoint_every : r.steps));
}

std::vector<std::string> differences(const Facts& f) {
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  std::vector<std::string> differs = common_differences(f);
  const auto say = adds_to(differs);
  say(o.mesh.pp > 1 && o.schedule != "1f1b" && o.schedule != "interleaved",
      fmt::format("--schedule {}: Megatron-LM has 1F1B and interleaved 1F1B, and this line uses 1F1B.", o.schedule));
  say(o.mesh.pp > 1 && o.model.layers % parts_of(o) != 0,
      fmt::format("{} layers do not divide over {} stages of {} chunks: Megatron-LM needs as many layers in each; "
                  "ours counts embedding and head too.",
                  o.model.layers, o.mesh.pp, o.chunks));
  say(o.zero >= 2 && o.data_ranks() > 1, fmt::format("--zero {}: its distributed optimizer is stage 1; this is "
                                                     "--use-megatron-fsdp --data-parallel-sharding-strategy "
                                                     "{} --ckpt-format fsdp_dtensor.",
                                                     o.zero, o.zero == 2 ? "optim_grads" : "optim_grads_params"));
  say(o.sequence_parallel && !o.overlap_scatter,
      "Without --overlap-scatter: with --sequence-parallel Megatron-LM always scatters gradients of inputs behind the "
      "products for weights.");
  say(o.is_hybrid(),
      fmt::format(
          "--shard-group {}: --num-distributed-optimizer-instances {} keeps stage 1's state once in each group.",
          o.state_ranks(), o.data_ranks() / o.state_ranks()));
  say(o.cp > 1 && o.sequence % (2 * static_cast<std::size_t>(o.cp)) != 0,
      fmt::format("A sequence of {} tokens: Megatron-LM rejects one that is not a multiple of 2 × {}.", o.sequence,
                  o.cp));
  say(r.warmup >= r.steps, "Megatron-LM rejects a warm-up that is as long as the run.");
  say(true,
      fmt::format("The vocabulary has one token more, which ends a document, and is padded to a multiple of 128 × {}.",
                  o.mesh.tp));
  return differs;
}

}  // namespace

Explanation as_megatron(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  // It refuses both without this, on GPUs before Blackwell: one hardware queue keeps kernels in the order of their
  // launch.
  const bool ordered = f.o.mesh.tp > 1 || f.o.cp > 1;
  Launch launch((ordered ? "CUDA_DEVICE_MAX_CONNECTIONS=1 " : "") + torchrun(plan, "pretrain_gpt.py"));
  add_model_and_optimizer(launch, f);
  add_precision(launch, f);
  add_parallelism(launch, f.o);
  add_data_and_files(launch, plan);
  return {{{"prepare.py", prepare_file(plan)}}, prepare_lines(plan) + launch.line, differences(f)};
}

}  // namespace lockstep::train

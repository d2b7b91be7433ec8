// --explain-as deepspeed: its launcher, and the file that its initialize() reads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/support/json/document.hpp"
#include "tools/train/explain_parts.hpp"

namespace lockstep::train {

namespace {

Json text_of(const std::string& value) { return Json::of(std::string_view(value)); }

/// Members in the order in which they are added.
class Members {
 public:
  Members& set(const char* name, Json value) {
    all_.push_back({name, std::move(value)});
    return *this;
  }
  Json object() { return Json::object(std::move(all_)); }

 private:
  std::vector<Json::Member> all_;
};

Json zero_json(const week25::Options3d& o) {
  Members zero;
  zero.set("stage", Json::of(o.zero)).set("overlap_comm", Json::of(o.overlap));
  if (o.zero > 0)
    zero.set("reduce_bucket_size", Json::of(o.bucket_bytes / bytes_of(o.reduce)))
        .set("contiguous_gradients", Json::of(true));
  if (o.is_hybrid()) zero.set("mics_shard_size", Json::of(o.state_ranks()));
  return zero.object();
}

Json optimizer_json(const Facts& f) {
  Members parameters;
  parameters.set("lr", Json::of(f.r.learning_rate));
  if (f.adamw) {
    std::vector<Json> betas;
    for (const double beta : {0.9, 0.95}) betas.push_back(Json::of(beta));
    parameters.set("betas", Json::list(std::move(betas))).set("eps", Json::of(1e-8));
    parameters.set("weight_decay", Json::of(f.weight_decay));
  } else {
    parameters.set("momentum", Json::of(0.9));
  }
  return Members().set("type", text_of(f.adamw ? "AdamW" : "SGD")).set("params", parameters.object()).object();
}

Json scheduler_json(const TrainRequest& r) {
  Members parameters;
  parameters.set("total_num_steps", Json::of(r.steps)).set("warmup_num_steps", Json::of(std::max(2, r.warmup)));
  parameters.set("warmup_min_ratio", Json::of(0.0)).set("cos_min_ratio", Json::of(0.1));
  parameters.set("warmup_type", text_of("linear"));  // its default is logarithmic
  return Members().set("type", text_of("WarmupCosineLR")).set("params", parameters.object()).object();
}

Json fp16_json(const week25::Options3d& o) {
  Members fp16;
  fp16.set("enabled", Json::of(true)).set("loss_scale", Json::of(o.loss_scale ? 0 : 1));
  if (o.loss_scale) fp16.set("initial_scale_power", Json::of(static_cast<int>(std::log2(*o.loss_scale))));
  fp16.set("loss_scale_window", Json::of(o.loss_scale_interval)).set("hysteresis", Json::of(1));
  return fp16.object();
}

}  // namespace

Explanation as_deepspeed(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  const auto [nodes, node] = nodes_of(plan);
  const std::string hosts = nodes > 1 ? fmt::format("--hostfile hosts --num_nodes {} ", nodes) : "";
  Explanation e;
  e.launch =
      fmt::format("deepspeed {}--num_gpus {} train.py --deepspeed --deepspeed_config ds_config.json", hosts, node);
  e.file = "ds_config.json";
  e.differs = common_differences(f);
  const auto replica = static_cast<std::size_t>(o.microbatches) * f.micro;
  Members config;
  config.set("train_batch_size", Json::of(replica * static_cast<std::size_t>(o.replicas())));
  config.set("train_micro_batch_size_per_gpu", Json::of(f.micro));
  config.set("gradient_accumulation_steps", Json::of(o.microbatches));
  config.set("optimizer", optimizer_json(f)).set("scheduler", scheduler_json(r));
  config.set("gradient_clipping", Json::of(r.clip)).set("zero_optimization", zero_json(o));
  config.set("steps_per_print", Json::of(plan.log_every));
  if (f.brain) config.set("bf16", Members().set("enabled", Json::of(true)).object());
  if (f.half) config.set("fp16", fp16_json(o));
  if (f.half || f.brain)
    config.set("communication_data_type", text_of(o.reduce == DType::f32 ? "fp32" : f.brain ? "bfp16" : "fp16"));
  if (o.model.fp32_gradients) config.set("data_types", Members().set("grad_accum_dtype", text_of("fp32")).object());
  e.config = config.object().dump(2) + "\n";
  const auto say = [&](bool so, const std::string& sentence) {
    if (so) e.differs.push_back(sentence);
  };
  say(o.mesh.tp > 1,
      fmt::format("--tp {}: DeepSpeed takes tensor parallelism from the model (Megatron's mpu), not from this file.",
                  o.mesh.tp));
  say(o.cp > 1,
      fmt::format(
          "--cp {}: DeepSpeed has no ring attention; its sequence parallelism (Ulysses, arXiv 2309.14509) trades "
          "heads for positions by all-to-all, in the model.",
          o.cp));
  say(o.mesh.pp > 1,
      fmt::format(
          "--pp {}: PipelineModule(layers, num_stages={}) in train.py; its schedule is 1F1B, whatever --schedule says.",
          o.mesh.pp, o.mesh.pp));
  say(o.zero >= 2 && o.mesh.pp > 1, "DeepSpeed, too, rejects ZeRO-2 and 3 with a pipeline.");
  say(o.overlap_scatter, "--overlap-scatter: a matter of the model, as --tp is.");
  say(o.overlap_gather, "--overlap-gather: DeepSpeed's ZeRO-1 and 2 gather parameters within the optimizer's step.");
  say(o.recompute != week22::Recompute::none,
      "--recompute: deepspeed.checkpointing.checkpoint around each block, in the model.");
  say(f.adamw && f.weight_decay > 0,
      "Weight decay: in the file it is of all parameters; ours spares norms and biases: pass parameter groups to "
      "initialize().");
  say(o.is_hybrid(), "--shard-group: MiCS, whose deepspeed.zero.MiCS_Init builds the model.");
  say(o.zero == 3,
      "--wrap and --prefetch: stage 3 chooses its units by itself; stage3_prefetch_bucket_size counts elements.");
  return e;
}

}  // namespace lockstep::train

// --explain-as deepspeed: its launcher, and the file that its initialize() reads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
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
    parameters.set("weight_decay", Json::of(f.weight_decay)).set("torch_adam", Json::of(true));  // not compiled first
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

constexpr const char* kLoop = R"py(
_, kept = engine.load_checkpoint("checkpoint") if os.path.isdir("checkpoint") else (None, None)
begin = kept["step"] if kept else 0
)py";

std::string deepspeed_model(const week25::Options3d& o) {
  if (o.mesh.pp > 1)
    return fmt::format(
        R"py(kinds = [gpt.Embedding, *[gpt.Block] * gpt.LAYERS, gpt.Head]
layers = [gpt.seeded(i, kind) for i, kind in enumerate(kinds)]
model = deepspeed.pipe.PipelineModule(layers, num_stages={}, loss_fn=gpt.loss_of)
)py",
        o.mesh.pp);
  if (!o.is_hybrid()) return "model = gpt.Model()\n";
  return R"py(with deepspeed.zero.MiCS_Init(config_dict_or_path="ds_config.json"):
    model = gpt.Model()
with deepspeed.zero.GatheredParameters(list(model.parameters()), modifier_rank=0):
    gpt.initialise(model)  # each layer was sharded before its turn came
)py";
}

std::string deepspeed_program(const Facts& f) {
  const week25::Options3d& o = f.o;
  const bool pipeline = o.mesh.pp > 1;
  std::string text =
      R"py(import os

import deepspeed
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

import gpt

deepspeed.init_distributed()
)py";
  text += deepspeed_model(o);
  text +=
      R"py(engine, *_ = deepspeed.initialize(
    model=model, model_parameters=gpt.groups_of(model), config="ds_config.json"
)
gpt.positions = gpt.positions.to(engine.device)
text = gpt.Text()
)py";
  text += pipeline ? "replicas, replica = engine.dp_world_size, engine.grid.get_data_parallel_rank()\n"
                   : "replicas, replica = dist.get_world_size(), dist.get_rank()\n";
  text += fmt::format(
      R"py(sampler = DistributedSampler(text, replicas, replica, seed=gpt.SEED, drop_last=True)
loader = DataLoader(text, batch_size={}, sampler=sampler, drop_last=True)
)py",
      f.micro);
  text += kLoop;
  text += fmt::format(R"py(feed = gpt.batches(loader, sampler, begin * {})
for step in range(begin, gpt.STEPS):
)py",
                      o.microbatches);
  text += pipeline ? "    engine.train_batch(data_iter=feed)  # all microbatches, and a step of the optimizer\n"
                   : fmt::format(
                         R"py(    for _ in range({}):
        inputs, targets = (x.to(engine.device) for x in next(feed))
        loss = gpt.loss_of(engine(inputs), targets)
        engine.backward(loss)
        engine.step()  # steps the optimizer after the last
    if dist.get_rank() == 0:
        print(f"step {{step + 1}}, loss {{loss.item():.4f}} of rank 0's last microbatch", flush=True)
)py",
                         o.microbatches);
  text += if_it_saves(f);
  return text +
         R"py(        engine.save_checkpoint("checkpoint", client_state={"step": step + 1})
dist.destroy_process_group()
)py";
}

}  // namespace

Explanation::File deepspeed_config(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
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
  return {"ds_config.json", config.object().dump(2) + "\n"};
}

Explanation as_deepspeed(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  const week25::Options3d& o = f.o;
  const auto [nodes, node] = nodes_for(plan, o.replicas() * o.mesh.pp);
  const std::string hosts = nodes > 1 ? fmt::format("--hostfile hosts --num_nodes {} ", nodes) : "";
  Explanation e{{gpt_file(plan), deepspeed_config(plan), {"train.py", deepspeed_program(f)}},
                fmt::format("deepspeed {}--num_gpus {} train.py", hosts, node),
                differences_of_gpt(f)};
  const auto say = adds_to(e.differs);
  // deepspeed/runtime/lr_schedules.py: WarmupCosineLR counts from −1, and steps after the optimizer.
  say(true,
      "--warmup: DeepSpeed's rate is two steps late. It is 0 in the first two steps, and in a later step of the "
      "warm-up "
      "that of our step two before. After the warm-up it is ours.");
  say(f.r.warmup < 2, fmt::format("--warmup {}: DeepSpeed warms up for at least two steps.", f.r.warmup));
  say(o.mesh.tp > 1, fmt::format("--tp {}: DeepSpeed takes tensor parallelism from the model (Megatron's mpu), not "
                                 "from this file; this run is without.",
                                 o.mesh.tp));
  say(o.cp > 1,
      fmt::format(
          "--cp {}: DeepSpeed has no ring attention; its sequence parallelism (Ulysses, arXiv 2309.14509) trades "
          "heads for positions by all-to-all, in the model; this run is without.",
          o.cp));
  say(o.mesh.pp > 1,
      fmt::format(
          "--pp {}: the schedule of PipelineModule is 1F1B, whatever --schedule says; embedding and head are untied.",
          o.mesh.pp));
  say(o.zero >= 2 && o.mesh.pp > 1, "DeepSpeed, too, rejects ZeRO-2 and 3 with a pipeline.");
  say(o.overlap_scatter, "--overlap-scatter: a matter of the model, as --tp is.");
  say(o.overlap_gather, "--overlap-gather: DeepSpeed's ZeRO-1 and 2 gather parameters within the optimizer's step.");
  say(o.recompute != week22::Recompute::none,
      "--recompute: deepspeed.checkpointing.checkpoint around each block, in the model.");
  say(o.zero == 0 && !f.r.bucket_bytes.empty(), "--bucket-bytes: DeepSpeed has one only from stage 1 on.");
  say(o.zero == 3 && !o.is_hybrid(), "A model that does not fit on one rank is built within deepspeed.zero.Init().");
  say(o.zero == 3,
      "--wrap and --prefetch: stage 3 chooses its units by itself; stage3_prefetch_bucket_size counts elements.");
  return e;
}

}  // namespace lockstep::train

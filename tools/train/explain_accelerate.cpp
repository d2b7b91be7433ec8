// --explain-as accelerate: its configuration file, and a program that does not know how it is distributed.
#include <fmt/format.h>

#include <algorithm>

#include "tools/train/explain_parts.hpp"

namespace lockstep::train {

namespace {

const char* precision_of(const Facts& f) { return f.brain ? "bf16" : f.half ? "fp16" : "'no'"; }
const char* yaml_truth(bool so) { return so ? "true" : "false"; }

std::string accelerate_config(const TrainPlan& plan, const Facts& f) {
  const week25::Options3d& o = f.o;
  const auto [nodes, node] = nodes_for(plan, o.replicas());
  const bool sharded = o.zero >= 2, by_deepspeed = o.zero == 1;
  const char* kind = o.replicas() == 1 ? "'NO'" : by_deepspeed ? "DEEPSPEED" : sharded ? "FSDP" : "MULTI_GPU";
  std::string text = fmt::format(
      "compute_environment: LOCAL_MACHINE\ndistributed_type: {}\nmixed_precision: {}\n"
      "num_machines: {}\nnum_processes: {}\nmachine_rank: 0\n",
      kind, precision_of(f), nodes, nodes * node);
  if (nodes > 1)
    text +=
        "main_process_ip: HEAD  # the first node; the others have another machine_rank\nmain_process_port: 29500\n"
        "same_network: true\n";
  if (o.replicas() == 1) return text;
  if (by_deepspeed)
    text += fmt::format(
        "deepspeed_config:\n  zero_stage: 1\n  gradient_accumulation_steps: {}\n  gradient_clipping: {}\n"
        "  zero3_init_flag: false\n",
        o.microbatches, f.r.clip);
  if (sharded)
    text += fmt::format(
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {}\n  fsdp_auto_wrap_policy: {}\n"
        "  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_activation_checkpointing: {}\n"
        "  fsdp_cpu_ram_efficient_loading: false\n",
        yaml_truth(o.zero == 3),
        f.r.wrap == "model" ? "NO_WRAP" : "TRANSFORMER_BASED_WRAP\n  fsdp_transformer_layer_cls_to_wrap: Block",
        yaml_truth(o.recompute == week22::Recompute::full));
  if (o.is_hybrid())
    text += fmt::format(
        "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n  parallelism_config_dp_shard_size: {}\n",
        o.data_ranks() / o.state_ranks(), o.state_ranks());
  return text;
}

std::string accelerate_program(const TrainPlan& plan, const Facts& f) {
  const week25::Options3d& o = f.o;
  std::string text =
      R"py(import os

import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from torch.utils.data import DataLoader, DistributedSampler

import gpt

)py";
  text += fmt::format(
      R"py(accumulation = GradientAccumulationPlugin(num_steps={}, sync_with_dataloader=False)
accelerator = Accelerator(gradient_accumulation_plugin=accumulation)
gpt.positions = gpt.positions.to(accelerator.device)
model = gpt.Model()
optimizer = {})
sampler = DistributedSampler(gpt.Text(), 1, 0, seed=gpt.SEED)  # only for its order
loader = DataLoader(sampler.dataset, batch_size={}, sampler=sampler, drop_last=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)  # each rank its own batches

)py",
      o.microbatches, optimizer_call(f, "gpt.groups_of(model)"), f.micro);
  text +=
      R"py(begin = max((int(name) for name in os.listdir("checkpoint")), default=0) if os.path.isdir("checkpoint") else 0
if begin:
    accelerator.load_state(f"checkpoint/{begin}")
)py";
  text += fmt::format("feed = gpt.batches(loader, sampler, begin * {})\n", o.microbatches);
  text += fmt::format(
      R"py(for step in range(begin, gpt.STEPS):
    for group in optimizer.param_groups:
        group["lr"] = {} * gpt.factor(step)
    for _ in range({}):
        inputs, targets = next(feed)
        with accelerator.accumulate(model):  # sums gradients over ranks in the last microbatch only
            loss = gpt.loss_of(model(inputs), targets)
            accelerator.backward(loss)
)py",
      f.r.learning_rate, o.microbatches);
  if (f.r.clip > 0 && o.zero != 1)
    text += fmt::format(
        R"py(            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), {})
)py",
        f.r.clip);
  text += fmt::format(
      R"py(            optimizer.step()
            optimizer.zero_grad()
    mean = accelerator.reduce(loss.detach(), "mean")
    if (step + 1) % {} == 0:
        accelerator.print(f"step {{step + 1}}, loss {{mean.item():.4f}} of the last microbatch", flush=True)
)py",
      std::max(1, plan.log_every));
  text += if_it_saves(f);
  return text + "        accelerator.save_state(f\"checkpoint/{step + 1}\")\naccelerator.end_training()\n";
}

}  // namespace

Explanation as_accelerate(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  const week25::Options3d& o = f.o;
  Explanation e{
      {gpt_file(plan), {"accelerate.yaml", accelerate_config(plan, f)}, {"train.py", accelerate_program(plan, f)}},
      "accelerate launch --config_file accelerate.yaml train.py",
      differences_of_gpt(f)};
  const auto say = adds_to(e.differs);
  say(o.mesh.tp > 1 || o.cp > 1,
      "--tp and --cp: Accelerate shards the models of transformers that bring a plan for it; this run is without.");
  say(o.mesh.pp > 1, "--pp: Accelerate's pipeline is for inference; this run is without.");
  say(o.zero == 1 && o.replicas() > 1, "--zero 1: Accelerate leaves stage 1 to DeepSpeed, which must be installed.");
  say(o.zero == 2,
      "ZeRO-2: FSDP without resharding keeps all parameters from the forward to the end of the backward pass.");
  say((o.recompute == week22::Recompute::full && o.zero < 2) || o.recompute == week22::Recompute::selective,
      "--recompute: checkpoint the blocks in gpt.py (torch.utils.checkpoint).");
  say(f.half || f.brain, "16 bits are those of autocast, with fp32 parameters, or of FSDP's mixed precision.");
  return e;
}

}  // namespace lockstep::train

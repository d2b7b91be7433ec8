// --explain-as torchrun: PyTorch, whose launcher it is.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/support/json/document.hpp"
#include "common/support/text/counted.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "tools/train/explain_parts.hpp"

namespace lockstep::train {

namespace {

std::string schedule_class(const week25::Options3d& o) {
  if (o.schedule == "gpipe" || o.schedule == "naive") return "ScheduleGPipe";
  if (o.schedule == "interleaved") return "ScheduleInterleaved1F1B";
  if (o.schedule == "zb-v") return "ScheduleZBVZeroBubble";
  if (o.schedule == "dualpipev") return "ScheduleDualPipeV";
  return o.schedule.starts_with("zb") ? "ScheduleInterleavedZeroBubble" : "Schedule1F1B";
}

/// The others take a list.
bool takes_one_stage(const week25::Options3d& o) {
  return o.schedule == "gpipe" || o.schedule == "naive" || o.schedule == "1f1b";
}
int microbatches_there(const week25::Options3d& o) { return o.schedule == "naive" ? 1 : o.microbatches; }

/// ZeroRedundancyOptimizer knows plain tensors only, and one module.
bool sharded_optimizer(const week25::Options3d& o) {
  return o.zero == 1 && o.data_ranks() > 1 && o.mesh.tp == 1 && o.mesh.pp == 1;
}
/// DDP does not average DTensors as it should.
bool with_fsdp(const Facts& f) {
  const week25::Options3d& o = f.o;
  return o.data_ranks() > 1 && f.r.outer_steps == 0 && (o.zero >= 2 || o.mesh.tp > 1 || (o.zero == 1 && o.mesh.pp > 1));
}

/// The plan by which each block's parts are sharded.
std::string tensor_parallel(const week25::Options3d& o) {
  const char* rows = o.sequence_parallel ? "RowwiseParallel(output_layouts=Shard(1))" : "RowwiseParallel()";
  std::string text =
      R"py(    plan = {name: ColwiseParallel() for name in ("attention.q", "attention.k", "attention.v", "mlp.up", "mlp.gate")}
)py";
  text += fmt::format("    plan |= {{name: {} for name in (\"attention.projection\", \"mlp.down\")}}\n", rows);
  if (o.sequence_parallel)
    text +=
        R"py(    whole = {"input_layouts": Shard(1), "desired_input_layouts": Replicate()}
    plan |= {name: PrepareModuleInput(**whole) for name in ("attention", "mlp")}
    plan |= {name: SequenceParallel() for name in ("norm1", "norm2")}
)py";
  text +=
      R"py(    for block in blocks.values():
        names = dict(block.named_modules())
        parallelize_module(block, mesh["tp"], {n: how for n, how in plan.items() if names.get(n)})
)py";
  if (o.sequence_parallel)
    text +=
        R"py(    if part.embedding:
        shard = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1))
        parallelize_module(part, mesh["tp"], {"embedding": shard})
    if part.head:
        ends = {"norm": SequenceParallel(), "linear": PrepareModuleInput(**whole, use_local_output=True)}
        parallelize_module(part.head, mesh["tp"], ends)
)py";
  return text;
}

/// Text of parallel(), which shards a part of the model, and wraps the part and its blocks in place.
std::string wrapped_model(const Facts& f) {
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  std::string text = R"py(def parallel(part):
    part.to(device)
    blocks = part.blocks
)py";
  if (o.mesh.tp > 1) text += tensor_parallel(o);
  if (o.recompute == week22::Recompute::full)
    text += R"py(    for i, block in blocks.items():
        blocks[i] = checkpoint_wrapper(block)
)py";
  if (o.recompute == week22::Recompute::selective)
    text += R"py(    for block in blocks.values():
        block.attention = checkpoint_wrapper(block.attention)
)py";
  if (with_fsdp(f)) {
    const std::string policy =
        f.half || f.brain
            ? fmt::format(", \"mp_policy\": MixedPrecisionPolicy(param_dtype=torch.{}, reduce_dtype=torch.{})",
                          f.brain ? "bfloat16" : "float16",
                          o.reduce == DType::f32 ? "float32"
                          : f.brain              ? "bfloat16"
                                                 : "float16")
            : "";
    text +=
        fmt::format("    how = {{\"mesh\": {}, \"reshard_after_forward\": {}{}}}\n",
                    o.is_hybrid() ? "mesh[\"replicate\", \"shard\"]" : "data", o.zero == 3 ? "True" : "False", policy);
    if (r.wrap != "model")
      text += R"py(    for block in blocks.values():
        fully_shard(block, **how)
)py";
    return text + "    return fully_shard(part, **how)\n";
  }
  if (o.data_ranks() == 1 || r.outer_steps > 0) return text + "    return part\n";
  return text +
         fmt::format("    return DistributedDataParallel(part, process_group=data.get_group(), bucket_cap_mb={:.3g})\n",
                     static_cast<double>(o.bucket_bytes) / (1 << 20));
}

std::string mesh_line(const week25::Options3d& o) {
  std::string sizes = fmt::format("{}", o.mesh.pp), names = "\"pp\"";
  const auto add = [&](int size, const char* name) {
    sizes += fmt::format(", {}", size);
    names += fmt::format(", \"{}\"", name);
  };
  if (o.is_hybrid()) {
    add(o.data_ranks() / o.state_ranks(), "replicate");
    add(o.state_ranks(), "shard");
  } else {
    add(o.replicas(), "dp");
    if (o.cp > 1) add(o.cp, "cp");
  }
  add(o.mesh.tp, "tp");
  return fmt::format("mesh = init_device_mesh(kind, ({}), mesh_dim_names=({}))\ndata = {}\n", sizes, names,
                     o.is_hybrid() ? "mesh[\"replicate\", \"shard\"]._flatten(\"data\")"
                     : o.cp == 1   ? "mesh[\"dp\"]"
                                   : "mesh[\"dp\", \"cp\"]._flatten(\"data\")");
}

std::string model_lines(const Facts& f) {
  const week25::Options3d& o = f.o;
  std::string text = wrapped_model(f) + "\n\n";
  if (o.mesh.pp == 1) {
    text += "model = parallel(gpt.Model())\n";
  } else {
    const int pp = o.mesh.pp, parts = pp * o.chunks;
    text += fmt::format("stage, parts = mesh[\"pp\"].get_local_rank(), {}\n", parts);
    text += week24::in_a_vee(o.schedule) ? "mine = [stage, parts - 1 - stage]\n"
                                         : fmt::format("mine = list(range(stage, parts, {}))\n", pp);
    text +=
        R"py(cuts = [gpt.LAYERS * i // parts for i in range(parts + 1)]
model = torch.nn.ModuleDict({f"part{i}": parallel(gpt.Model(cuts[i], cuts[i + 1])) for i in mine})
stages = [PipelineStage(model[f"part{i}"], i, parts, device, group=mesh["pp"].get_group()) for i in mine]
)py";
    text += fmt::format("pipeline = {}({}, n_microbatches={}, loss_fn={})\n", schedule_class(o),
                        takes_one_stage(o) ? "stages[0]" : "stages", microbatches_there(o),
                        o.loss_scale ? "lambda y, t: scaler.scale(gpt.loss_of(y, t))" : "gpt.loss_of");
  }
  if (sharded_optimizer(o))
    return text +
           fmt::format("optimizer = ZeroRedundancyOptimizer(gpt.groups_of(model), optimizer_class={}, lr={}, {})\n",
                       f.adamw ? "torch.optim.AdamW" : "torch.optim.SGD", f.r.learning_rate,
                       f.adamw ? "betas=(0.9, 0.95), eps=1e-8" : "momentum=0.9");
  return text + "optimizer = " + optimizer_call(f, "gpt.groups_of(model)") +
         (o.mesh.tp > 1 ? ", foreach=False)  # one tensor at a time: some are DTensors\n" : ")\n");
}

std::string data_lines(const Facts& f) {
  const week25::Options3d& o = f.o;
  return fmt::format(
      R"py(replicas, replica = {}
text = gpt.Text()
sampler = DistributedSampler(text, replicas, replica, seed=gpt.SEED, drop_last=True)
loader = DataLoader(text, batch_size={}, sampler=sampler, drop_last=True)
)py",
      o.cp == 1 ? "data.size(), data.get_local_rank()" : "mesh[\"dp\"].size(), mesh[\"dp\"].get_local_rank()",
      o.mesh.pp == 1 ? f.micro : f.micro * static_cast<std::size_t>(o.microbatches));
}

std::string checkpoint_lines(const Facts& f) {
  const std::string folder = f.r.checkpoint.empty() ? "checkpoint" : f.r.checkpoint;
  std::string text = fmt::format("folder = {}\n", Json::of(std::string_view(folder)).dump());
  if (sharded_optimizer(f.o))
    return text + R"py(

def save(step):  # rank 0 collects the shards of the optimizer, and renames what is complete
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        os.makedirs(folder, exist_ok=True)
        torch.save([step, model.module.state_dict(), optimizer.state_dict()], f"{folder}/part")
        os.replace(f"{folder}/part", f"{folder}/state.pt")
    dist.barrier()


def load():
    if not os.path.exists(f"{folder}/state.pt"):
        return 0
    step, weights, moments = torch.load(f"{folder}/state.pt", map_location=device)
    model.module.load_state_dict(weights)
    optimizer.load_state_dict(moments)
    return step
)py";
  return text + R"py(

def save(step):  # each rank writes its shards; another mesh can read them
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "step": torch.tensor(step)}, checkpoint_id=f"{folder}/{step}")


def load():
    steps = [int(name) for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name.isdigit()]
    complete = [step for step in steps if os.path.exists(f"{folder}/{step}/.metadata")]  # it is written last
    if not complete:
        return 0
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": torch.tensor(0)}
    dcp.load(state, checkpoint_id=f"{folder}/{max(complete)}")
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return int(state["step"])
)py";
}

std::string clip_lines(const Facts& f) {
  const week25::Options3d& o = f.o;
  if (f.r.clip <= 0 || (o.mesh.tp == 1 && o.mesh.pp == 1)) return "";
  std::string text =
      R"py(

def clip(most):  # clip_grad_norm_ wants tensors of one mesh
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norms = [torch.linalg.vector_norm(g) for g in gradients]
    squared = sum((n.full_tensor() if isinstance(n, DTensor) else n) ** 2 for n in norms)
)py";
  if (o.mesh.pp > 1) text += "    dist.all_reduce(squared, group=mesh[\"pp\"].get_group())\n";
  return text +
         R"py(    for gradient in gradients:
        gradient.mul_(torch.clamp(most / (squared.sqrt() + 1e-6), max=1).item())
)py";
}

/// Forward and backward of all microbatches. Leaves their mean loss in `loss`.
std::string passes(const Facts& f) {
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  const std::string cast = (f.half || f.brain) && !with_fsdp(f)
                               ? fmt::format("with torch.autocast(kind, torch.{}):\n", f.brain ? "bfloat16" : "float16")
                               : "";
  std::string text = "    loss = torch.zeros((), device=device)\n";
  if (o.mesh.pp > 1) {
    text +=
        R"py(    inputs, targets = (x.to(device) for x in next(feed))
    losses = []
    ends = {"target": targets, "losses": losses} if parts - 1 in mine else {}
)py";
    text += cast.empty() ? "    " : "    " + cast + "        ";
    text += "pipeline.step(*([inputs] if 0 in mine else []), **ends)\n";
    return text + "    for one in losses:\n        loss += one.detach() / len(losses)" +
           (o.loss_scale ? " / scaler.get_scale()\n" : "\n");
  }
  text +=
      fmt::format("    for i in range({}):  # {} of {} of {} on each rank\n", o.microbatches,
                  counted(o.microbatches, "microbatch"), counted(f.micro, "sequence"), counted(o.sequence, "token"));
  text += "        inputs, targets = (x.to(device) for x in next(feed))\n";
  if (with_fsdp(f))
    text += fmt::format("        model.set_requires_gradient_sync(i == {})\n", o.microbatches - 1);
  else if (o.data_ranks() > 1 && r.outer_steps == 0)
    text +=
        fmt::format("        model.require_backward_grad_sync = i == {}  # what no_sync() sets\n", o.microbatches - 1);
  std::string in = "        ";
  if (o.cp > 1) {  // the backward too, whose attention is the ring's
    text +=
        in +
        "with context_parallel(mesh[\"cp\"], buffers=[inputs, targets, gpt.positions], buffer_seq_dims=[1, 1, 0]):\n";
    in += "    ";
  }
  const std::string part = fmt::format("part = gpt.loss_of(model(inputs), targets) / {}\n", o.microbatches);
  text += cast.empty() ? in + part : in + cast + in + "    " + part;
  text += in + (o.loss_scale ? "scaler.scale(part).backward()\n" : "part.backward()\n");
  return text + "        loss += part.detach()\n";
}

std::string loop_lines(const TrainPlan& plan, const Facts& f) {
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  std::string text = fmt::format(
      R"py(

begin = load()
feed = gpt.batches(loader, sampler, begin{})
for step in range(begin, gpt.STEPS):
    for group in optimizer.param_groups:
        group["lr"] = {} * gpt.factor(step)
)py",
      o.mesh.pp == 1 ? fmt::format(" * {}", o.microbatches) : "", r.learning_rate);
  text += passes(f);
  if (r.clip > 0) {
    if (o.loss_scale) text += "    scaler.unscale_(optimizer)\n";
    text += o.mesh.tp == 1 && o.mesh.pp == 1
                ? fmt::format("    torch.nn.utils.clip_grad_norm_(model.parameters(), {})\n", r.clip)
                : fmt::format("    clip({})\n", r.clip);
  }
  text += o.loss_scale ? "    scaler.step(optimizer)\n    scaler.update()\n" : "    optimizer.step()\n";
  text += "    optimizer.zero_grad()\n";
  text += fmt::format(
      R"py(    dist.all_reduce(loss)  # the same on all ranks of a replica, and with a pipeline on one stage of it
    if rank == 0 and (step + 1) % {} == 0:
        print(f"step {{step + 1}}, loss {{loss.item() / {}:.4f}}", flush=True)
)py",
      std::max(1, plan.log_every), plan.run.ranks / o.mesh.pp);
  text += if_it_saves(f);
  return text + R"py(        save(step + 1)
dist.destroy_process_group()  # everybody arrives here
)py";
}

std::string imports(const Facts& f) {
  const week25::Options3d& o = f.o;
  std::string text = R"py(import datetime
import os

import torch
import torch.distributed as dist
)py";
  const auto from = [&](bool so, const char* module, const char* names) {
    if (so) text += fmt::format("from torch.{} import {}\n", module, names);
  };
  const bool ddp = o.data_ranks() > 1 && !with_fsdp(f) && f.r.outer_steps == 0;
  if (!sharded_optimizer(o)) text += "import torch.distributed.checkpoint as dcp\n";
  from(o.recompute != week22::Recompute::none, "distributed.algorithms._checkpoint.checkpoint_wrapper",
       "checkpoint_wrapper");
  from(!sharded_optimizer(o), "distributed.checkpoint.state_dict", "get_state_dict, set_state_dict");
  from(true, "distributed.device_mesh", "init_device_mesh");
  from(with_fsdp(f), "distributed.fsdp", f.half || f.brain ? "MixedPrecisionPolicy, fully_shard" : "fully_shard");
  from(sharded_optimizer(o), "distributed.optim", "ZeroRedundancyOptimizer");
  if (o.mesh.pp > 1)
    text += fmt::format("from torch.distributed.pipelining import PipelineStage, {}\n", schedule_class(o));
  const bool clips = f.r.clip > 0 && (o.mesh.tp > 1 || o.mesh.pp > 1);
  from(clips || o.sequence_parallel, "distributed.tensor",
       !o.sequence_parallel ? "DTensor"
       : clips              ? "DTensor, Replicate, Shard"
                            : "Replicate, Shard");
  from(o.cp > 1, "distributed.tensor.experimental", "context_parallel");
  from(o.mesh.tp > 1, "distributed.tensor.parallel",
       o.sequence_parallel ? "(\n    ColwiseParallel,\n    PrepareModuleInput,\n    PrepareModuleOutput,\n    "
                             "RowwiseParallel,\n    SequenceParallel,\n    parallelize_module,\n)"
                           : "ColwiseParallel, RowwiseParallel, parallelize_module");
  from(ddp, "nn.parallel", "DistributedDataParallel");
  text += R"py(from torch.utils.data import DataLoader, DistributedSampler

import gpt

)py";
  return text;
}

}  // namespace

Explanation as_torchrun(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  const week25::Options3d& o = f.o;
  Explanation e{{gpt_file(plan)}, torchrun(plan, "train.py"), differences_of_gpt(f)};
  std::string text =
      imports(f) + place_lines() +
      R"py(dist.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=datetime.timedelta(minutes=10))
rank = dist.get_rank()
)py";
  text += mesh_line(o) + "gpt.positions = gpt.positions.to(device)\n";
  if (o.loss_scale)
    text += fmt::format("scaler = torch.amp.GradScaler(kind, init_scale={}, growth_interval={})\n", *o.loss_scale,
                        o.loss_scale_interval);
  text += "\n\n" + model_lines(f) + data_lines(f) + checkpoint_lines(f) + clip_lines(f) + loop_lines(plan, f);
  e.files.push_back({"train.py", std::move(text)});
  const auto say = adds_to(e.differs);
  say(o.is_hybrid() && o.cp > 1,
      "--shard-group with --cp: the ranks of \"cp\" are neighbours in \"shard\": a second mesh names them.");
  say(o.cp > 1 && o.mesh.pp > 1,
      "--cp with --pp: each step of the pipeline inside context_parallel(mesh[\"cp\"], …) as well.");
  say(o.mesh.pp > 1 && o.schedule == "naive",
      "--schedule naive: PyTorch has no such schedule; GPipe with one microbatch does the same.");
  say(o.mesh.pp > 1 && o.schedule == "zb-h2",
      "--schedule zb-h2: torch.distributed.pipelining has the first zero-bubble schedule only.");
  say(o.mesh.pp > 1 && o.schedule == "dualpipev" && o.microbatches < 2 * o.mesh.pp,
      "--schedule dualpipev: ScheduleDualPipeV needs at least as many microbatches as there are parts, two per stage.");
  say(o.zero < 2 && with_fsdp(f),
      "--zero 0 with --tp, and 1 with --tp or --pp: DistributedDataParallel and ZeroRedundancyOptimizer are not for "
      "DTensors, or for several modules, so this is fully_shard, which shards gradients as well.");
  say(o.mesh.tp > 1, "--tp: embedding and head are whole on each rank; ours shards the vocabulary.");
  say(o.mesh.pp > 1 && o.model.tied_head, "--pp: embedding and head are untied, as they are on different stages.");
  say(o.mesh.pp > 1 && o.loss_scale.has_value(),
      "fp16 with --pp: each stage's GradScaler knows its own gradients only; let the stages agree on found_inf.");
  say(o.cp > 1, "--cp: context_parallel needs the attention of a GPU.");
  say(o.zero == 2,
      "ZeRO-2: fully_shard without resharding keeps all parameters from the forward to the end of the backward pass; "
      "between steps they are sharded.");
  say(o.zero == 1 && (f.half || f.brain),
      "ZeRO-1 in 16 bits: autocast keeps fp32 parameters on every rank, where ours keeps 16-bit ones and shards the "
      "fp32 copy.");
  say(o.model.fp32_gradients,
      "--fp32-gradients: autocast keeps parameters and their gradients in fp32; with 16-bit parameters PyTorch adds "
      "gradients in 16 bits.");
  say(o.overlap_scatter,
      "--overlap-scatter: parallelize_module waits for each sum; torch.compile's asynchronous tensor parallelism hides "
      "them in the products themselves.");
  say(o.overlap_gather, o.zero == 1
                            ? "--overlap-gather: ZeroRedundancyOptimizer sends new parameters within its step()."
                            : "--overlap-gather: fully_shard always gathers parameters during the next forward pass.");
  say(!with_fsdp(f) && !f.r.reduce.empty(),
      "--reduce: DistributedDataParallel sums gradients in their own type; a communication hook sums in another.");
  say(!o.overlap, "--no-overlap: DDP and fully_shard always overlap.");
  say(o.zero == 3 && o.prefetch != 1,
      "--prefetch: set_modules_to_forward_prefetch and …_backward_prefetch, unit by unit.");
  return e;
}

}  // namespace lockstep::train

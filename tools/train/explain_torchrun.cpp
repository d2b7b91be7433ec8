// --explain-as torchrun: PyTorch, whose launcher it is.
#include <fmt/format.h>

#include <algorithm>

#include "common/support/text/counted.hpp"
#include "tools/train/explain_parts.hpp"

namespace lockstep::train {

namespace {

std::string schedule_class(const week25::Options3d& o) {
  if (o.schedule == "gpipe") return "ScheduleGPipe";
  if (o.schedule == "interleaved") return "ScheduleInterleaved1F1B";
  if (o.schedule == "zb-v") return "ScheduleZBVZeroBubble";
  return o.schedule.starts_with("zb") ? "ScheduleInterleavedZeroBubble" : "Schedule1F1B";
}

std::string wrapped_model(const Facts& f) {
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  std::string text;
  if (o.mesh.tp > 1)
    text += fmt::format(
        "for block in model.blocks:\n"
        "    parallelize_module(block, mesh[\"tp\"], {{\n"
        "        \"qkv\": ColwiseParallel(), \"projection\": RowwiseParallel({}),\n"
        "        \"up\": ColwiseParallel(), \"down\": RowwiseParallel({}){}}})\n",
        o.sequence_parallel ? "output_layouts=Shard(1)" : "", o.sequence_parallel ? "output_layouts=Shard(1)" : "",
        o.sequence_parallel ? ", \"norm1\": SequenceParallel(), \"norm2\": SequenceParallel()" : "");
  if (o.recompute == week22::Recompute::full)
    text += "for i, block in enumerate(model.blocks):\n    model.blocks[i] = checkpoint_wrapper(block)\n";
  if (o.data_ranks() == 1 || r.outer_steps > 0) return text;
  const std::string replicas = o.is_hybrid() ? "mesh[\"replicate\", \"shard\"]"
                               : o.cp == 1   ? "mesh[\"dp\"]"
                                             : "mesh[\"dp\", \"cp\"]._flatten()";
  if (o.zero >= 2) {
    const std::string policy =
        f.half || f.brain ? fmt::format(", mp_policy=MixedPrecisionPolicy(param_dtype=torch.{}, reduce_dtype=torch.{})",
                                        f.brain ? "bfloat16" : "float16",
                                        o.reduce == DType::f32 ? "float32"
                                        : f.brain              ? "bfloat16"
                                                               : "float16")
                          : "";
    const std::string shard =
        fmt::format("mesh={}, reshard_after_forward={}{}", replicas, o.zero == 3 ? "True" : "False", policy);
    if (r.wrap != "model") text += fmt::format("for block in model.blocks:\n    fully_shard(block, {})\n", shard);
    return text + fmt::format("fully_shard(model, {})\n", shard);
  }
  return text +
         fmt::format("model = DistributedDataParallel(model, process_group={}.get_group(), bucket_cap_mb={:.3g})\n",
                     replicas, static_cast<double>(o.bucket_bytes) / (1 << 20));
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
  return fmt::format("mesh = init_device_mesh(\"cuda\", ({}), mesh_dim_names=({}))\n", sizes, names);
}

std::string optimizer_lines(const Facts& f) {
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  std::string text = fmt::format(
      "decays = [p for p in model.parameters() if p.dim() > 1]\n"
      "others = [p for p in model.parameters() if p.dim() <= 1]\n"
      "groups = [{{\"params\": decays, \"weight_decay\": {}}}, {{\"params\": others, \"weight_decay\": 0.0}}]\n",
      f.weight_decay);
  const std::string made = f.adamw
                               ? fmt::format("torch.optim.AdamW, lr={}, betas=(0.9, 0.95), eps=1e-8", r.learning_rate)
                               : fmt::format("torch.optim.SGD, lr={}, momentum=0.9", r.learning_rate);
  const std::size_t comma = made.find(',');
  text += o.zero == 1 && o.data_ranks() > 1
              ? fmt::format("optimizer = ZeroRedundancyOptimizer(groups, optimizer_class={})\n", made)
              : fmt::format("optimizer = {}(groups{})\n", made.substr(0, comma), made.substr(comma));
  const std::string cosine = fmt::format("CosineAnnealingLR(optimizer, {}, eta_min={:g})",
                                         std::max(1, r.steps - r.warmup), r.learning_rate / 10);
  if (r.warmup < 2) return text + fmt::format("schedule = {}\n", cosine);
  return text + fmt::format(
                    "schedule = SequentialLR(optimizer, [LinearLR(optimizer, 1 / {}, total_iters={}),\n"
                    "                                    {}], milestones=[{}])\n",
                    r.warmup, r.warmup - 1, cosine, r.warmup);
}

/// Which of the model's parts a rank's chunk is.
std::string part_number(const week25::Options3d& o) {
  const std::string stage = "mesh[\"pp\"].get_local_rank()";
  if (o.schedule == "zb-v") return fmt::format("{} if chunk == 0 else {} - {}", stage, 2 * o.mesh.pp - 1, stage);
  return stage + (o.chunks > 1 ? " + chunk * " + std::to_string(o.mesh.pp) : "");
}

std::string pipeline_lines(const week25::Options3d& o) {
  return fmt::format(
      "stage = PipelineStage(my_part_of(model), {}, {}, device, "
      "group=mesh[\"pp\"].get_group())\n"
      "pipeline = {}({}, n_microbatches={}, loss_fn=loss_of)  # then pipeline.step(inputs), a step of the optimizer\n",
      part_number(o), o.mesh.pp * o.chunks, schedule_class(o), o.chunks > 1 ? "stages" : "stage", o.microbatches);
}

std::string step_lines(const Facts& f) {
  const TrainRequest& r = f.r;
  const week25::Options3d& o = f.o;
  std::string text = fmt::format(
      "for parts in batches:  # {} of {} of {} on each rank\n"
      "    for i, (inputs, targets) in enumerate(parts):\n",
      counted(o.microbatches, "microbatch"), counted(f.micro, "sequence"), counted(o.sequence, "token"));
  if (o.zero >= 2)
    text += fmt::format("        model.set_requires_gradient_sync(i == {})\n", o.microbatches - 1);
  else if (o.data_ranks() > 1 && r.outer_steps == 0)
    text +=
        fmt::format("        model.require_backward_grad_sync = i == {}  # what no_sync() sets\n", o.microbatches - 1);
  const char* inside = o.cp > 1 ? "    " : "";  // the backward too, whose attention is the ring's
  if (o.cp > 1)
    text += "        with context_parallel(mesh[\"cp\"], buffers=[inputs, targets], buffer_seq_dims=[1, 1]):\n";
  if ((f.half || f.brain) && o.zero < 2)
    text += fmt::format("{}        with torch.autocast(\"cuda\", torch.{}):\n    ", inside,
                        f.brain ? "bfloat16" : "float16");
  text += fmt::format("{}        loss = loss_of(model(inputs), targets) / {}\n{}", inside, o.microbatches, inside);
  text += o.loss_scale ? "        scaler.scale(loss).backward()\n" : "        loss.backward()\n";
  if (r.clip > 0)
    text += fmt::format("{}    torch.nn.utils.clip_grad_norm_(model.parameters(), {})\n",
                        o.loss_scale ? "    scaler.unscale_(optimizer)\n" : "", r.clip);
  text += o.loss_scale ? "    scaler.step(optimizer)\n    scaler.update()\n" : "    optimizer.step()\n";
  return text + "    schedule.step()\n    optimizer.zero_grad()\n";
}

}  // namespace

Explanation as_torchrun(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  const week25::Options3d& o = f.o;
  Explanation e{torchrun(plan, "train.py"), "train.py, what of it differs from a loop on one GPU", "",
                common_differences(f)};
  e.config = mesh_line(o);
  if (o.loss_scale)
    e.config += fmt::format("scaler = torch.amp.GradScaler(init_scale={}, growth_interval={})\n", *o.loss_scale,
                            o.loss_scale_interval);
  e.config += wrapped_model(f) + (o.mesh.pp > 1 ? pipeline_lines(o) : "") + optimizer_lines(f);
  if (o.mesh.pp == 1) e.config += step_lines(f);
  const auto say = [&](bool so, const std::string& sentence) {
    if (so) e.differs.push_back(sentence);
  };
  say(o.is_hybrid() && o.cp > 1,
      "--shard-group with --cp: the ranks of \"cp\" are neighbours in \"shard\": a second mesh names them.");
  say(o.cp > 1 && o.mesh.pp > 1,
      "--cp with --pp: each step of the pipeline inside context_parallel(mesh[\"cp\"], …) as well.");
  say(o.mesh.pp > 1 && o.schedule == "naive",
      "--schedule naive: PyTorch has no such schedule; GPipe with one microbatch does the same.");
  say(o.mesh.pp > 1 && o.schedule == "zb-h2",
      "--schedule zb-h2: torch.distributed.pipelining has the first zero-bubble schedule only.");
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
  say(!o.overlap, "--no-overlap: DDP and fully_shard always overlap.");
  say(o.zero == 3 && o.prefetch != 1,
      "--prefetch: set_modules_to_forward_prefetch and …_backward_prefetch, unit by unit.");
  return e;
}

}  // namespace lockstep::train

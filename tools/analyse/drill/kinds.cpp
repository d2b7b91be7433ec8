#include "tools/analyse/drill/kinds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::drill {
namespace {

constexpr double kPrinted = 1e-4, kSeconds = 0.02;  // tolerances: of five digits, and of three in other units

constexpr Kind kKinds[] = {
    {"straggler", "one rank computes slower than the others", "the slow one",
     "the arithmetic that is slow, as traces name it", "seconds that this rank computes per step", Unit::seconds,
     kSeconds,
     "Every rank but the slow one waits for it: a rank that waits least is late, not idle. ./lab why names "
     "it, because all ranks should compute equally long; ./lab diff with the good run names the operation.",
     "torch.profiler on two ranks: the straggler has long kernels and short nccl kernels, the others the reverse, "
     "since an NCCL kernel lasts until the last rank has arrived. Causes: a GPU that throttles (nvidia-smi -q -d "
     "PERFORMANCE), another process on it, uneven shards."},
    {"slow-loader", "one rank's data arrive late", "the one that loads", "data, the region that loads",
     "seconds that it loads per step", Unit::seconds, kSeconds,
     "All ranks compute equally long, but all except one wait: the one that does not wait is loading data. Its region "
     "\"data\" lasts, and ./lab why says so.",
     "The profiler shows a gap without kernels in enqueuing DataLoader.__next__ on one rank, and long all-reduces on "
     "the others. Causes: too few workers, one slow disk or file server, a shard with longer samples."},
    {"same-data", "one rank trains on the sequences of another", "the one whose sequences nobody sees",
     "data, the region that loads", "its own_loss in step 1 of this run", Unit::count, kPrinted,
     "Nothing is slow, and the loss falls. But in steps.csv two ranks have the same own_loss to the last digit, in "
     "every step. The good run's first step tells which of them it belongs to: the other one has the wrong sequences.",
     "A DistributedSampler that is missing, or has the wrong rank, or a seed that every rank should have had of its "
     "own. "
     "Each GPU is as busy as before, and some of the data are never seen. Log a hash of each rank's first batch."},
    {"flipped-bit", "one rank's all-reduce result has a wrong number in it", "the one with the wrong sum",
     "the all-reduce, by its number in collectives.csv: all_reduce 17", "the step in which it happened", Unit::count, 0,
     "After an all-reduce every rank has the same bits. In collectives.csv one rank's result differs once; from that "
     "step on its parameters differ from the others' for the rest of the run.",
     "Silent data corruption: a faulty GPU, memory without ECC, a race on the buffer. DDP compares shapes, never "
     "values; compare a checksum of the parameters over the ranks from time to time, as large runs do."},
    {"swapped-order", "one rank calls two collectives in a different order", "the one that differs",
     "the first collective that differs, by its number: all_reduce 17", "bytes that this rank passed there",
     Unit::bytes, 0,
     "Collectives match only by the order of the calls. Where one rank's bytes differ from the good run's, they are "
     "those of the next number: it was called too early.",
     "NCCL does not compare sizes: it hangs, or sums the wrong buffers. TORCH_DISTRIBUTED_DEBUG=DETAIL "
     "compares them, and the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE) has the same list. Causes: collectives "
     "from hooks, threads, or a Python set; parameters that a rank uses in another order."},
    {"wrong-count", "one rank passes a different number of elements to a collective", "the one that differs",
     "the collective that differs, by its number: all_reduce 17", "bytes that this rank passed there", Unit::bytes, 0,
     "Where one rank's bytes differ from the good run's, they are not those of the next number: the order is right, "
     "the count is not.",
     "The last batch of an epoch that only one rank has shorter, a mask, a tensor of another length: gather the sizes "
     "first, or pad. NCCL hangs or reads beyond the buffer; Gloo and TORCH_DISTRIBUTED_DEBUG=DETAIL report it."},
    {"long-warm-up", "a stage does one forward too many before its first backward", "the stage",
     "the first step of its schedule that is not the good run's: F4", "microbatches in flight there, at most",
     Unit::count, 0,
     "The losses are right and so is the time: only the memory of one stage is larger, by one microbatch's "
     "activations. In the trace its steps begin with one forward more than 1F1B's p − stage.",
     "A run that is out of memory on one stage only. Megatron's num_warmup_microbatches and PyTorch's "
     "Schedule1F1B compute it from the stage; an off-by-one there costs memory or time, never correctness."},
    {"short-warm-up", "a stage does one forward too few before its first backward", "the stage",
     "the first step of its schedule that is not the good run's: B0", "microbatches in flight there, at most",
     Unit::count, 0,
     "The losses are right, one stage holds one microbatch less, and every stage waits: that stage waits for a "
     "gradient before it has sent the activations that others need meanwhile.",
     "A bubble larger than (p − 1)/m. Draw the schedule, or look at the profiler for a stage that waits between two "
     "forwards of its warm-up."},
    {"crossed-microbatches", "a stage does two microbatches' forwards in the wrong order", "the stage",
     "the one of the two that it does too early: F3", "the first loss that is not the good run's", Unit::count,
     kPrinted,
     "Nothing stops: sizes agree, and messages match in the order posted. But an activation meets another "
     "microbatch's targets or gradients, so the loss departs from the good run's.",
     "Point-to-point messages of NCCL have no tags. torch.distributed.pipelining sends in the schedule's order, so "
     "both ends must agree on it; compare losses with a run without the pipeline."},
    {"lost-message", "a stage never sends a microbatch's activations", "the stage that does not send",
     "the forward whose result is not sent: F3", "the step in which it happened", Unit::count, 0,
     "The explanation ends in two neighbours that wait for each other: the later stage for activations, the earlier "
     "for their gradient. The trace says which of them is wrong: the earlier one has done the forward, but sent "
     "nothing after it.",
     "An early return before isend, or a batch_isend_irecv built under a condition that one rank does not meet. NCCL's "
     "watchdog ends all ranks after its time-out; the flight recorder has the receive without a partner."},
    {"mesh-order", "the axes of the mesh are in the wrong order",
     "the one that rank 0 sends its part of the tensor-parallel all-reduces to",
     "the collective that it slows down, as traces name it",
     "bytes that all ranks together send to other nodes in the whole run", Unit::bytes, 0,
     "The losses are right, and every step is slow: the tensor-parallel all-reduces, four per block and microbatch, "
     "cross the link between nodes. All ranks' traffic to other nodes is many times the good run's.",
     "init_device_mesh(\"cuda\", (pp, dp, tp)): the last dimension is the innermost, neighbouring ranks in one node. "
     "Megatron's --tp-pp-dp order does the same; NCCL_DEBUG=INFO says which transport each group has."},
    {"norm-not-summed", "each rank clips by the norm of its own shards", "all",
     "the axis over which the sum is missing: dp, tp or pp", "rank 0's gradient norm in step 1", Unit::count, kPrinted,
     "The gradient norm is one number, the same on every rank. Here ranks that differ on one axis have different ones, "
     "whose squares add up to the good run's: clipping is weaker, and not the same everywhere.",
     "torch.nn.utils.clip_grad_norm_ on FSDP1 parameters sees only the local shard: model.clip_grad_norm_ sums over "
     "the ranks. With DTensor (FSDP2) the sum is built in. Its symptom is a norm that differs by rank, or falls when "
     "ranks are added."},
    {"sync-in-no-sync", "gradients are averaged after every microbatch", "all",
     "the collective that runs too often, as traces name it", "bytes that rank 0 sends in the whole run", Unit::bytes,
     0,
     "The losses are right up to rounding, since an average of averages changes nothing, and the steps are slow: in "
     "the trace an all-reduce of all gradients follows every backward.",
     "Gradient accumulation without model.no_sync() (FSDP: set_requires_gradient_sync(False)), or with the forward "
     "outside it: DDP decides in the forward. The profiler shows nccl:all_reduce in each microbatch."},
};

}  // namespace

const Kind& kind_of(std::string_view word) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return word == k.word; });
  if (found == std::end(kKinds)) throw Error(Verdict::usage, fmt::format("there is no kind of fault '{}'", word));
  return *found;
}

}  // namespace lockstep::drill

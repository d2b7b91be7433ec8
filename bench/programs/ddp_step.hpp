// One data-parallel training step of a GPT, to be measured with and without its communication, and its prediction from
// a serial step and the prices of messages.
#pragma once

#include <string>
#include <vector>

#include "bench/support/links.hpp"
#include "bench/support/measure.hpp"
#include "bench/support/step_shape.hpp"
#include "labs/week21_data_parallel/ddp.hpp"

namespace lockstep::bench {

/// A step of DDP: rank r takes chunk r of p of its sequences, the global batch.
struct DdpShape : StepShape {
  int microbatches = 1;    // per rank; averaged once for all of them
  week21::DdpOptions ddp;  // the variant below sets its `overlap`
};
/// With buckets of this size, the first of at most 1 MiB; 0: PyTorch's 25 MiB, less for small models.
DdpShape ddp_shape(const StepShape& step, std::size_t bucket_bytes = 0);

/// The parts of a DDP step that run.
enum class Variant {
  compute,        // forward, backward and optimizer without communication
  sequential,     // gradients averaged while the rank does nothing else
  overlapped,     // gradients averaged on a second stream during the backward pass
  communication,  // averaging alone
};
std::string to_string(Variant variant);

/// Prepares a step for `measure`. Verified by comparing the averaged gradients with those of the whole batch on one
/// rank.
Prepared prepare_step(Rank me, const DdpShape& shape, Variant variant, Purpose purpose);

/// Prepares the step of one rank alone, verified by its loss.
Prepared prepare_serial_step(Rank me, const StepShape& shape);
/// True of the losses after the first step, near ln V because a new model knows nothing, and after more: lower.
bool learns(const GptConfig& model, double first_loss, double last_loss);

/// A step on one rank without messages: its duration, and when each bucket's gradients are ready.
struct SerialStep {
  struct BucketReady {
    double seconds = 0;  // since the beginning of the step
    double bytes = 0;
  };
  std::vector<BucketReady> buckets;
  double backward_end = 0;
  double seconds = 0;
  double memory_bytes = 0;  // all memory that it touches
};
/// Runs the largest shard of `ranks` on one rank; in real time takes the step of median length out of seven. On MPI all
/// ranks do so at once, each for itself, since they share the memory's bandwidth, and the slowest one counts.
SerialStep profile_serial_step(RunOptions options, const DdpShape& shape, int ranks);

/// Predicts the variant's time on `ranks`: the serial step, and for each bucket a ring all-reduce by 21.5's formula and
/// a multiplication by 1/p. With overlap a bucket starts when its gradients are ready and its predecessor is done, and
/// its additions lengthen the backward pass. Without spare cores the core that computes also copies a rank's messages,
/// so nothing is hidden. With tables, a step that touches more than the caches hold finds its gradients cold.
double predicted_seconds(const SerialStep& serial, Variant variant, const LinkPrices& prices, int ranks,
                         bool spare_cores);
/// True if a rank has a core that does not compute, or if its time is modelled.
bool has_spare_cores(const RunOptions& options);

/// Returns one contender per variant, in the given order.
std::vector<Contender> step_contenders(const std::vector<Variant>& variants, const DdpShape& shape,
                                       const SerialStep& serial, const LinkPrices& prices, const RunOptions& options);

}  // namespace lockstep::bench

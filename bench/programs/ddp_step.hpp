// One data-parallel training step of a GPT, made to be measured with and without its communication, and a prediction of
// it from a serial step and the price of a message.
#pragma once

#include <string>
#include <vector>

#include "bench/support/links.hpp"
#include "bench/support/measure.hpp"
#include "common/gpt/model/config.hpp"
#include "labs/week21_data_parallel/ddp.hpp"

namespace lockstep::bench {

struct StepShape {
  GptConfig model;
  std::size_t sequences = 0;  // of the global batch; rank r takes chunk r of p
  std::size_t length = 0;     // tokens of each
  int microbatches = 1;       // of each rank's shard; one averaging for all of them
  week21::DdpOptions ddp;     // its `overlap` is set by the variant below
};

/// What is left of a DDP step.
enum class Variant {
  compute,        // forward, backward and optimizer, nothing sent
  sequential,     // gradients averaged while the rank does nothing else
  overlapped,     // gradients averaged on a second queue during the backward pass
  communication,  // the averages alone
};
std::string to_string(Variant variant);

/// For `measure`. Verified: the averaged gradients against those of the whole batch, computed on one rank.
Prepared prepare_step(Rank me, const StepShape& shape, Variant variant, Purpose purpose);

/// A step on one rank without messages: when each bucket's gradients are ready, and how long it takes.
struct SerialStep {
  struct BucketReady {
    double seconds = 0;  // since the step began
    double bytes = 0;
  };
  std::vector<BucketReady> buckets;
  double backward_end = 0;
  double seconds = 0;
  double memory_bytes = 0;  // all that it touches
};
/// Runs the largest shard of `ranks` on one rank; where time is real, the step of median length out of seven. On MPI
/// all ranks do so at once, each for itself, since they share the memory's bandwidth, and the slowest one counts.
SerialStep profile_serial_step(RunOptions options, const StepShape& shape, int ranks);

/// Seconds of the variant on `ranks`: the serial step, and for each bucket a ring all-reduce by 21.5's formula and a
/// multiplication by 1/p; overlapped, a bucket starts when its gradients are ready and the one before is done, and its
/// additions lengthen the backward pass. Without spare cores a rank's messages are copied by the core that computes,
/// and nothing is hidden. Where prices are tables, a step that touches more than the caches hold finds its gradients
/// cold.
double predicted_seconds(const SerialStep& serial, Variant variant, const LinkPrices& prices, int ranks,
                         bool spare_cores);
/// Whether a rank has a core that does not compute, or its time is modelled.
bool has_spare_cores(const RunOptions& options);

/// Contenders, one a variant, in the order given.
std::vector<Contender> step_contenders(const std::vector<Variant>& variants, const StepShape& shape,
                                       const SerialStep& serial, const LinkPrices& prices, const RunOptions& options);

}  // namespace lockstep::bench

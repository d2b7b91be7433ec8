// Given: what a rank of a 3D run holds when it holds most, before anything runs. The ledger measures the same, to the
// byte.
#pragma once

#include "common/gpt/model/units.hpp"
#include "labs/trainer/options_3d.hpp"

namespace lockstep::week25 {

/// Bytes of one rank. The peaks of different categories need not come at one time.
struct PeakMemory {
  std::size_t parameter = 0;
  std::size_t gradient = 0;
  std::size_t optimizer = 0;
  std::size_t activation = 0;
  std::size_t total() const { return parameter + gradient + optimizer + activation; }
};

/// The buckets in which gradients of this table are averaged, bucket 0 first: what ZeRO-1 cuts.
std::vector<Unit> bucket_units(const std::vector<Parameter>& table, const Options3d& options);

/// How a run goes on around its first step.
struct RunLength {
  int steps = 2;  ///< a second one begins with the activations' memory of the first: more does not happen later
  bool validates = true;
};

/// Of a rank of this stage in the first replica, which has the longest shards: no rank of the stage has more. The
/// options pass check().
///   values: whole, or in ZeRO-3 this rank's chunk of each unit, and the units that are gathered at one time;
///   gradients: whole, or in ZeRO-2 and 3 the chunks, and the whole gradients that a backward pass has at one time;
///   optimizer: 8 bytes an element, 12 of a 16-bit one, of what this rank updates;
///   activations: see activation_bytes.
PeakMemory peak_memory(const Options3d& options, int stage, RunLength length = {});

/// Of each category the most of any stage.
PeakMemory peak_memory(const Options3d& options, RunLength length = {});

/// Activations at their peak, in bytes: what the schedule's microbatches in flight keep, the boundaries that go with
/// them, are sent or arrive ahead, and the scratch of a backward.
std::size_t activation_bytes(const Options3d& options, int stage, RunLength length = {});

}  // namespace lockstep::week25

// States in the memory of the host: ZeRO-Offload (Ren et al., arXiv 2101.06840) and ZeRO-Infinity (Rajbhandari et al.,
// arXiv 2104.07857, without its disks). One price, of ./lab plan --offload and ./lab memory --recipe.
//
// Each rank has its shard on its host. Gradients of a microbatch go there during its backward, in 16 bits, and are
// added to an fp32 sum during the next microbatch. Parameters, if they are offloaded, come to the GPU for the forward
// and again for the backward, while the blocks before theirs compute. Nothing hides what follows the last backward: the
// embedding's gradient, the host's Adam, and the way of new parameters to the GPU, as far as that takes longer than the
// update, which sends each part when it is done.
//
// Bandwidths are the machine file's. Software takes longer: docs/use/validation.md.
#pragma once

#include <algorithm>

#include "common/runtime/machine/machine.hpp"

namespace lockstep::plan {

/// The part that is on the host: nothing; gradients, fp32 parameters, m and v; or 16-bit parameters too.
enum class Offload { none, optimizer, parameters };

/// The ZeRO stage from which it is offloaded.
inline int least_zero(Offload offload) {
  return offload == Offload::parameters ? 3 : offload == Offload::optimizer ? 2 : 0;
}

/// Bytes for each element of a rank's shard.
struct OffloadBytes {
  double up = 0, down = 0;  ///< to and from the GPU, in each microbatch
  double updated = 0;       ///< to the GPU, once per step
  double held = 0;          ///< in the host's memory: fp32 gradients, parameters, m and v, and half as much for buffers
                            ///< (as DeepSpeed's estimators count); with 16-bit parameters likewise
  double moved(int microbatches) const { return microbatches * (up + down) + updated; }
};
inline OffloadBytes offload_bytes(Offload offload) {
  switch (offload) {
    case Offload::none: return {};
    case Offload::optimizer: return {.up = 0, .down = 2, .updated = 2, .held = 1.5 * 16};
    case Offload::parameters: break;
  }
  return {.up = 4, .down = 2, .updated = 0, .held = 1.5 * 18};
}

/// Seconds of Adam for the shards of all `gpus` of a host: it reads 16 bytes of each element (gradient, parameter, m,
/// v) and writes 14 (the last three, and the parameter in 16 bits).
inline double adam_seconds(const HostMemory& host, double elements, int gpus) {
  return 30 * elements * gpus / host.memory_bytes_per_second;
}

/// A rank's step, as its host sees it.
struct HostWork {
  double elements = 0;  ///< of the shard
  double late = 0;      ///< of them, those whose gradient is final only when a backward ends
  int microbatches = 1;
  double forward = 0, backward = 0;  ///< seconds of a microbatch that can hide transfers
  int gpus = 1;                      ///< that share the host
};
/// The cost that offloading adds to a step.
struct HostCost {
  double waiting = 0;  ///< seconds for transfers and sums that nothing hides
  double update = 0;   ///< seconds of Adam, or of the way to the GPU
  double moved = 0;    ///< bytes between the GPU and its host, both ways together
  double bytes = 0;    ///< of the host's memory
  double seconds() const { return waiting + update; }
};
inline HostCost host_cost(const HostMemory& host, Offload offload, const HostWork& work) {
  const OffloadBytes bytes = offload_bytes(offload);
  if (offload == Offload::none) return {};
  const double m = work.microbatches, link = host.gpu_bytes_per_second;
  const double up = bytes.up / 2 * work.elements / link;  // for the forward, and for the backward
  const double down = bytes.down * (work.elements - work.late) / link;
  const double forward = std::max(work.forward, up), backward = std::max({work.backward, up, down});  // full duplex
  const double sum = 10 * work.elements * work.gpus / host.memory_bytes_per_second;  // reads 4 and 2, writes 4
  return {.waiting = m * (forward - work.forward + backward - work.backward) + bytes.down * work.late / link +
                     (m - 1) * std::max(0.0, sum - forward - backward),
          .update = std::max(adam_seconds(host, work.elements, work.gpus), bytes.updated * work.elements / link),
          .moved = bytes.moved(work.microbatches) * work.elements,
          .bytes = bytes.held * work.elements};
}

}  // namespace lockstep::plan

// Counts operations that this process did on a slower path than usual, because shapes, types or addresses did not allow
// the fast one, so that benchmarks can report it. Results do not depend on these counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace lockstep::cuda {

struct SlowPaths {
  std::atomic<std::uint64_t> products_in_fp32{0};        // products of 16-bit operands, which were widened
  std::atomic<std::uint64_t> products_at_odd_places{0};  // likewise, because rows do not begin at multiples of 16 bytes
  std::atomic<std::uint64_t> gelus_apart{0};             // GELUs of 16-bit products, by a separate kernel
  std::atomic<std::uint64_t> attentions_in_loops{0};     // attentions of 16-bit types, without tensor cores
  std::atomic<std::uint64_t> attentions_not_by_library{0};  // by our kernels, although cuDNN was asked for or expected

  /// "none", or "3 × a product of 16-bit operands in fp32, 1 × attention without tensor cores".
  std::string words() const;
};

/// Counts of this process since it began.
SlowPaths& slow_paths();

}  // namespace lockstep::cuda

// What this process did in a slower way than it is usually done, because shapes, types or addresses allow no better: so
// that a benchmark says it. Results do not depend on these counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace lockstep::cuda {

struct SlowPaths {
  std::atomic<std::uint64_t> products_in_fp32{0};  // of 16-bit operands, which were widened
  std::atomic<std::uint64_t> products_at_odd_places{
      0};                                             // likewise, with rows that do not begin at multiples of 16 bytes
  std::atomic<std::uint64_t> gelus_apart{0};          // of 16-bit products, by a kernel after them
  std::atomic<std::uint64_t> attentions_in_loops{0};  // of 16-bit types, without tensor cores
  std::atomic<std::uint64_t> attentions_not_by_library{0};  // by our kernels, where cuDNN was asked for or expected

  /// "none", or "3 × a product of 16-bit operands in fp32, 1 × attention without tensor cores".
  std::string words() const;
};

/// Of this process, since it began.
SlowPaths& slow_paths();

}  // namespace lockstep::cuda

// What the runtime needs to know of a piece of arithmetic, whoever does it: its price and the memory it touches.
#pragma once

#include <array>

#include "common/slice.hpp"

namespace lockstep {

/// Of one operation: reads and writes for the race detector, work for the price.
struct Operation {
  const char* name = "";
  double flop = 0;                       // of which a multiply-add counts two
  double bytes = 0;                      // read and written, each element once
  DType dtype = DType::f32;              // chooses the peak rate
  std::array<const Slice*, 8> reads{};   // null or empty slices are ignored
  std::array<const Slice*, 6> writes{};  // read and written alike count as written
  bool matmul = false;                   // priced by the efficiency curve of its smallest dimension and size
  std::array<std::size_t, 3> mnk{};
};

}  // namespace lockstep

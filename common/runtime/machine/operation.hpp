// Description of one arithmetic operation, independent of the device: its cost and the memory it touches.
#pragma once

#include <array>

#include "common/slice.hpp"

namespace lockstep {

/// One operation: reads and writes for the race detector, work for the cost model.
struct Operation {
  const char* name = "";
  double flop = 0;                       // a multiply-add counts as two
  double bytes = 0;                      // read and written, each element once
  DType dtype = DType::f32;              // chooses the peak rate
  std::array<const Slice*, 8> reads{};   // null or empty slices are ignored
  std::array<const Slice*, 6> writes{};  // memory that is read and written counts as written
  bool matmul = false;                   // cost follows the efficiency curve of its smallest dimension and size
  std::array<std::size_t, 3> mnk{};
};

}  // namespace lockstep

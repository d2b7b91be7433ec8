// Last step of a matrix product that could not go to the library directly.
#pragma once

#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::kernels {

/// c[i][j] = (accumulate ? c[i][j] : 0) + sum[i][j] + bias[j], computed in f32 and rounded once. c has rows of
/// `columns`. A null sum, or an empty bias, is 0.
void finish_product(const Queue& queue, Array c, const float* sum, Array bias, std::size_t columns, bool accumulate);

}  // namespace lockstep::kernels

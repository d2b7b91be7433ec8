// Sine and cosine of a fraction of a full turn, for random numbers and rotary positions.
#pragma once

#include <cstdint>

#include "common/devices/cuda/kernels/launch.cuh"

namespace lockstep::kernels {

struct SineCosine {
  float sine, cosine;
};
/// Sine and cosine of 2π · `turns`, 0 ≤ turns ≤ 1: reduced to an eighth of a turn, then Cephes' polynomials.
__device__ inline SineCosine sine_cosine(float turns) {
  const int quarter = static_cast<int>(turns * 4.0f + 0.5f);
  const float angle = (turns - 0.25f * static_cast<float>(quarter)) * 6.28318530718f, square = angle * angle;
  float sine = -1.9515295891e-4f;
  sine = sine * square + 8.3321608736e-3f;
  sine = sine * square - 1.6666654611e-1f;
  sine = sine * square * angle + angle;
  float cosine = 2.443315711809948e-5f;
  cosine = cosine * square - 1.388731625493765e-3f;
  cosine = cosine * square + 4.166664568298827e-2f;
  cosine = cosine * square * square - 0.5f * square + 1.0f;
  const bool odd = (quarter & 1) != 0;
  const float s = odd ? cosine : sine, c = odd ? sine : cosine;
  return {(quarter & 2) != 0 ? -s : s, ((quarter + 1) & 2) != 0 ? -c : c};
}

}  // namespace lockstep::kernels

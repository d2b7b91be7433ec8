// Elementary functions that compilers turn into vector code: no branch, no table, no call.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace lockstep::cpu {

/// e^x within 2 ulp; 0 below −87.3 (no subnormals), infinity above 88.3, NaN for NaN.
/// e^x = 2^n · e^r with n = round(x / ln 2); the polynomial for e^r is that of Cephes' expf.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float low = -87.3f, high = 88.3f;
  constexpr float shift = 12582912.0f;  // 1.5 · 2^23: adding it leaves round(value) in the lowest bits
  const float inside = x < low ? low : (x > high ? high : x);
  const float shifted = inside * 1.44269504f + shift;
  const float n = shifted - shift;
  const float r = (inside - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u);
  const float result = p * power;
  return x < low ? 0.0f : (x > high ? std::numeric_limits<float>::infinity() : result);
}

/// 1 / (1 + e^−x).
[[gnu::always_inline]] inline float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }

}  // namespace lockstep::cpu

// Elementary functions that compilers can vectorise: no branches, no tables, no calls.
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

/// ln x for normal x > 0, within 2 ulp: x = 2^n · (1 + r) with 1 + r in [√½, √2); Cephes' logf polynomial.
[[gnu::always_inline]] inline float logarithm(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) - 0x3f3504f3u;  // makes √½ the start of an exponent
  const auto n = static_cast<float>(static_cast<std::int32_t>(bits) >> 23);
  const float r = std::bit_cast<float>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * r - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  const float square = r * r;
  return ((p * r * square + n * -2.12194440e-4f) - 0.5f * square + r) + n * 0.693359375f;
}

struct SineCosine {
  float sine, cosine;
};
/// Sine and cosine of 2π · `turns`, 0 ≤ turns ≤ 1, within 1.3e-7: reduced to an eighth of a turn; Cephes' polynomials.
[[gnu::always_inline]] inline SineCosine sine_cosine(float turns) {
  const auto quarter = static_cast<std::int32_t>(turns * 4.0f + 0.5f);
  const float angle = (turns - 0.25f * static_cast<float>(quarter)) * 6.28318530718f;
  const float square = angle * angle;
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

}  // namespace lockstep::cpu

// 21.10 with the normal equations of T(p) = A·(1/p) + B·(1 − 1/p) solved by hand, and the error of s = B/A propagated
// to first order. What is given is the reference's.
#define karp_flatt reference_karp_flatt
#define fit_amdahl reference_fit_amdahl
#include "solutions/week21_data_parallel/scaling_laws.cpp"
#undef karp_flatt
#undef fit_amdahl

namespace lockstep::week21 {

double karp_flatt(double speedup, int ranks) {
  check_ranks(ranks, 2);
  if (!(speedup > 0) || !std::isfinite(speedup)) reject(fmt::format("{} is not a speedup: it must be > 0", speedup));
  return (ranks - speedup) / (speedup * (ranks - 1));
}

SerialFraction fit_amdahl(const std::vector<Measurement>& measurements) {
  check_measurements(measurements);
  // Each equation divided by its T: u·A + v·B = 1.
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const Measurement& m : measurements) {
    const double u = 1 / (m.ranks * m.seconds), v = (m.ranks - 1) / (m.ranks * m.seconds);
    uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  const double a = (vv * u1 - uv * v1) / determinant, b = (uu * v1 - uv * u1) / determinant, s = b / a;
  double residuals = 0;
  for (const Measurement& m : measurements) {
    const double law = a / m.ranks + b * (m.ranks - 1) / m.ranks;
    residuals += std::pow(law / m.seconds - 1, 2);
  }
  const double freedom = static_cast<double>(measurements.size()) - 2;
  const double variance = residuals / freedom / determinant * (uu + 2 * s * uv + s * s * vv) / (a * a);
  const double reach = student_t95(freedom) * std::sqrt(variance);
  return {s, s - reach, s + reach};
}

}  // namespace lockstep::week21

// 21.10 as a line over 1/p: T(p) = i + j/p, where i = s·T(1) and i + j = T(1). The error of s comes from the line
// around the fitted one whose intercept is s's own error. What is given is the reference's.
#define karp_flatt reference_karp_flatt
#define fit_amdahl reference_fit_amdahl
#include "solutions/week21_data_parallel/scaling_laws.cpp"
#undef karp_flatt
#undef fit_amdahl

namespace lockstep::week21 {

double karp_flatt(double speedup, int ranks) {
  check_ranks(ranks, 2);
  if (!(speedup > 0) || !std::isfinite(speedup)) reject(fmt::format("{} is not a speedup: it must be > 0", speedup));
  const double p = ranks, of_parallel = 1 / speedup - 1;  // (1 − s)·(1/p − 1)
  return 1 - of_parallel / (1 / p - 1);
}

SerialFraction fit_amdahl(const std::vector<Measurement>& measurements) {
  check_measurements(measurements);
  std::vector<double> x, y, weights;
  for (const Measurement& m : measurements) {
    x.push_back(1.0 / m.ranks);
    y.push_back(m.seconds);
    weights.push_back(std::pow(m.seconds, -2));
  }
  const Line line = fit_line(x, y, weights);
  const double whole = line.intercept + line.slope, s = line.intercept / whole;
  std::vector<std::vector<double>> design;
  for (double one_over_p : x) design.push_back({s + (1 - s) * one_over_p, 1 - one_over_p});
  const double error = least_squares(design, y, weights).standard_errors[1] / whole;
  const double half = error * student_t95(static_cast<double>(measurements.size() - 2));
  return {.value = s, .low = s - half, .high = s + half};
}

}  // namespace lockstep::week21

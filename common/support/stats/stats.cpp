#include "common/support/stats/stats.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "common/error.hpp"

namespace lockstep {
namespace {

std::vector<double> sorted(std::vector<double> samples) {
  if (samples.empty()) throw Error(Verdict::usage, "statistics of no samples");
  for (double sample : samples)
    if (!std::isfinite(sample)) throw Error(Verdict::usage, "statistics of a sample that is not finite");
  std::sort(samples.begin(), samples.end());
  return samples;
}

/// P(X ≤ k) for X binomial(n, ½), by logarithms so that large n do not underflow.
double binomial_half(std::size_t n, std::size_t k) {
  double sum = 0;
  for (std::size_t i = 0; i <= k; ++i)
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) - n * std::log(2.0));
  return sum;
}

}  // namespace

Median median(std::vector<double> samples) {
  samples = sorted(std::move(samples));
  std::size_t n = samples.size();
  Median result{.value = (samples[(n - 1) / 2] + samples[n / 2]) / 2, .samples = n};
  // [x_(k), x_(n+1−k)] holds the median unless fewer than k samples fall on one side of it.
  std::size_t k = 1;
  while (2 * (k + 1) <= n && 1 - 2 * binomial_half(n, k) >= 0.95) ++k;
  result.low = samples[k - 1];
  result.high = samples[n - k];
  result.confidence = std::max(0.0, 1 - 2 * binomial_half(n, k - 1));
  return result;
}

double quantile(std::vector<double> samples, double q) {
  samples = sorted(std::move(samples));
  double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(samples.size() - 1);
  auto below = static_cast<std::size_t>(position);
  std::size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (position - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double mean(std::span<const double> samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double student_t95(double degrees_of_freedom) {
  // The quantile 0.975 by bisection of the distribution, whose tail is an integral of (1 + t²/ν)^(−(ν+1)/2).
  double nu = std::max(1.0, degrees_of_freedom);
  double scale = std::exp(std::lgamma((nu + 1) / 2) - std::lgamma(nu / 2)) / std::sqrt(nu * 3.14159265358979324);
  auto probability = [&](double t) {  // P(0 < T < t), Simpson's rule in θ with t = √ν tan θ
    double end = std::atan(t / std::sqrt(nu)), sum = 0;
    const int steps = 200;
    for (int i = 0; i <= steps; ++i) {
      double weight = i == 0 || i == steps ? 1 : i % 2 ? 4 : 2;
      sum += weight * std::pow(std::cos(end * i / steps), nu - 1);
    }
    return scale * std::sqrt(nu) * sum * end / steps / 3;
  };
  double low = 1.9, high = 13;
  for (int i = 0; i < 60; ++i) {
    double middle = (low + high) / 2;
    (probability(middle) < 0.475 ? low : high) = middle;
  }
  return (low + high) / 2;
}

Interval bootstrap(std::size_t points, const std::function<double(std::span<const std::size_t>)>& statistic,
                   int resamples, double confidence, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> indices(points);
  std::vector<double> values;
  for (int i = 0; i < resamples; ++i) {
    for (std::size_t& index : indices) index = random() % points;
    if (double value = statistic(indices); std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) throw Error(Verdict::usage, "bootstrap: no resample has a finite statistic");
  return {quantile(values, (1 - confidence) / 2), quantile(values, (1 + confidence) / 2)};
}

}  // namespace lockstep

// Statistics of measurements: estimates and their uncertainty. Assumes no distribution unless it must.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace lockstep {

/// The median of a sample, with an interval that contains the true median with at least 95 % confidence for any
/// distribution: the k-th smallest and k-th largest values, with the largest k that the binomial distribution allows.
/// Below 6 samples there is no such k; then the interval is the sample's range, and `confidence` (1 − 2^(1−n)) is below
/// 95 %. See Le Boudec, Performance Evaluation (2010), theorem 2.1; Hoefler and Belli, Scientific Benchmarking of
/// Parallel Computing Systems (SC'15), rule 5.
struct Median {
  double value = 0;
  double low = 0;
  double high = 0;
  double confidence = 0;
  std::size_t samples = 0;
};
/// Throws Error(usage) if there are no samples or one is not finite.
Median median(std::vector<double> samples);

/// The q-quantile, 0 ≤ q ≤ 1, linear between order statistics. Throws like `median`.
double quantile(std::vector<double> samples, double q);

double mean(std::span<const double> samples);

/// Result of a weighted least-squares fit, y ≈ Σ_j coefficients[j] · basis_j(x), and its quality.
struct Fit {
  std::vector<double> coefficients;
  std::vector<double> standard_errors;  // one per coefficient; 0 if there are as many coefficients as points
  double r_squared = 0;                 // fraction of the (weighted) variance about the mean that is explained
  double degrees_of_freedom = 0;        // points − coefficients
};
/// Row i of `design` holds basis_0(x_i), basis_1(x_i), …; `weights` (one per point, or empty for 1) multiply squared
/// residuals: 1/y² fits relative errors. Solved by Householder QR. Throws Error(usage) if there are fewer points than
/// coefficients or the columns are linearly dependent.
Fit least_squares(std::span<const std::vector<double>> design, std::span<const double> y,
                  std::span<const double> weights = {});

/// y ≈ intercept + slope · x.
struct Line {
  double intercept = 0;
  double slope = 0;
  double intercept_error = 0;  // standard errors
  double slope_error = 0;
  double r_squared = 0;
};
/// Fits a line. For message times over sizes the intercept is α and the slope β; weights 1/y² give small messages their
/// due weight.
Line fit_line(std::span<const double> x, std::span<const double> y, std::span<const double> weights = {});

/// Returns the factor from a standard error to half of a 95 % interval: Student's t, two-sided, for these degrees of
/// freedom (12.706 for 1, 1.96 for many).
double student_t95(double degrees_of_freedom);

/// A percentile-bootstrap interval of `statistic` over resamples of 0 … points − 1 (indices, with repetition): for fits
/// whose errors are not normal. Deterministic for a seed. A resample whose statistic is not finite is left out.
struct Interval {
  double low = 0;
  double high = 0;
};
Interval bootstrap(std::size_t points, const std::function<double(std::span<const std::size_t>)>& statistic,
                   int resamples = 1000, double confidence = 0.95, unsigned seed = 1);

}  // namespace lockstep

// Least squares by Householder QR: stable where the normal equations would square the condition number.
#include <cmath>

#include "common/error.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep {
namespace {

using Rows = std::vector<std::vector<double>>;

/// Reduces `a` (n × k) to upper triangular in place, applying the same reflections to `b`.
void reflect(Rows& a, std::vector<double>& b) {
  std::size_t n = a.size(), k = a[0].size();
  for (std::size_t column = 0; column < k; ++column) {
    double before = 0, norm = 0;
    for (std::size_t row = 0; row < n; ++row) before += a[row][column] * a[row][column];
    for (std::size_t row = column; row < n; ++row) norm += a[row][column] * a[row][column];
    if (!(norm > 1e-24 * before) || before == 0)
      throw Error(Verdict::usage, "least squares: the columns are linearly dependent");
    double diagonal = a[column][column] > 0 ? -std::sqrt(norm) : std::sqrt(norm);
    std::vector<double> v(n, 0.0);
    for (std::size_t row = column; row < n; ++row) v[row] = a[row][column];
    v[column] -= diagonal;
    double squares = 2 * (norm - a[column][column] * diagonal);
    auto apply = [&](auto value) {
      double product = 0;
      for (std::size_t row = column; row < n; ++row) product += v[row] * value(row);
      for (std::size_t row = column; row < n; ++row) value(row) -= 2 * product / squares * v[row];
    };
    if (squares > 0) {
      for (std::size_t j = column; j < k; ++j) apply([&](std::size_t row) -> double& { return a[row][j]; });
      apply([&](std::size_t row) -> double& { return b[row]; });
    }
  }
}

/// Solves R x = b for the upper triangle R of `a`.
std::vector<double> back_substitute(const Rows& a, const std::vector<double>& b) {
  std::size_t k = a[0].size();
  std::vector<double> x(k);
  for (std::size_t i = k; i-- > 0;) {
    double sum = b[i];
    for (std::size_t j = i + 1; j < k; ++j) sum -= a[i][j] * x[j];
    x[i] = sum / a[i][i];
  }
  return x;
}

/// Diagonal of (RᵀR)⁻¹: squared lengths of the rows of R⁻¹.
std::vector<double> inverse_diagonal(const Rows& a) {
  std::size_t k = a[0].size();
  std::vector<double> squares(k, 0.0);
  for (std::size_t column = 0; column < k; ++column) {
    std::vector<double> unit(k, 0.0);
    unit[column] = 1;
    std::vector<double> x = back_substitute(a, unit);
    for (std::size_t row = 0; row < k; ++row) squares[row] += x[row] * x[row];
  }
  return squares;
}

}  // namespace

Fit least_squares(std::span<const std::vector<double>> design, std::span<const double> y,
                  std::span<const double> weights) {
  std::size_t n = y.size(), k = design.empty() ? 0 : design[0].size();
  if (design.size() != n || (!weights.empty() && weights.size() != n))
    throw Error(Verdict::usage, "least squares: the numbers of rows, weights and values differ");
  if (k == 0 || n < k) throw Error(Verdict::usage, "least squares: fewer points than coefficients");

  Rows a(design.begin(), design.end());
  std::vector<double> b(y.begin(), y.end());
  double total_weight = 0, weighted_sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double weight = weights.empty() ? 1 : weights[i];
    total_weight += weight;
    weighted_sum += weight * y[i];
    for (double& value : a[i]) value *= std::sqrt(weight);
    b[i] *= std::sqrt(weight);
  }
  reflect(a, b);

  Fit fit{.coefficients = back_substitute(a, b), .degrees_of_freedom = static_cast<double>(n - k)};
  double residual = 0, variance = 0, centre = weighted_sum / total_weight;
  for (std::size_t i = k; i < n; ++i) residual += b[i] * b[i];
  for (std::size_t i = 0; i < n; ++i)
    variance += (weights.empty() ? 1 : weights[i]) * (y[i] - centre) * (y[i] - centre);
  fit.r_squared = variance > 0 ? 1 - residual / variance : 1;
  double per_degree = n > k ? residual / static_cast<double>(n - k) : 0;
  for (double square : inverse_diagonal(a)) fit.standard_errors.push_back(std::sqrt(square * per_degree));
  return fit;
}

Line fit_line(std::span<const double> x, std::span<const double> y, std::span<const double> weights) {
  std::vector<std::vector<double>> design;
  for (double value : x) design.push_back({1, value});
  Fit fit = least_squares(design, y, weights);
  return {.intercept = fit.coefficients[0],
          .slope = fit.coefficients[1],
          .intercept_error = fit.standard_errors[0],
          .slope_error = fit.standard_errors[1],
          .r_squared = fit.r_squared};
}

}  // namespace lockstep

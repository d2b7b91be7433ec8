#include "common/devices/tests/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::reference {

namespace {
const double kRoot = std::sqrt(2 / std::numbers::pi);
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(kRoot * (x + 0.044715 * x * x * x))); }

double gelu_derivative(double x) {
  const double t = std::tanh(kRoot * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRoot * (1 + 3 * 0.044715 * x * x);
}

Product product(const Values& a, bool a_transposed, const Values& b, bool b_transposed, std::size_t m, std::size_t n,
                std::size_t k) {
  Product c{Values(m * n), Values(m * n)};
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t p = 0; p < k; ++p) {
        const double term = (a_transposed ? a[p * m + i] : a[i * k + p]) * (b_transposed ? b[j * k + p] : b[p * n + j]);
        c.value[i * n + j] += term;
        c.magnitude[i * n + j] += std::fabs(term);
      }
  return c;
}

Norm layer_norm(const Values& x, const Values& weight, const Values& bias) {
  const std::size_t columns = weight.size(), rows = x.size() / columns;
  const double count = static_cast<double>(columns);
  Norm norm{Values(x.size()), Values(rows), Values(rows)};
  for (std::size_t n = 0; n < rows; ++n) {
    const double* row = x.data() + n * columns;
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < columns; ++i) mean += row[i] / count;
    for (std::size_t i = 0; i < columns; ++i) variance += (row[i] - mean) * (row[i] - mean) / count;
    norm.mean[n] = mean;
    norm.reciprocal_deviation[n] = 1 / std::sqrt(variance + 1e-5);
    for (std::size_t i = 0; i < columns; ++i)
      norm.y[n * columns + i] = (row[i] - mean) * norm.reciprocal_deviation[n] * weight[i] + bias[i];
  }
  return norm;
}

// With h the normalised x and g = dy·weight: dx = (g − mean(g) − h·mean(g·h)) / deviation.
NormGradients layer_norm_backward(const Values& dy, const Values& x, const Values& weight) {
  const std::size_t columns = weight.size(), rows = x.size() / columns;
  const double count = static_cast<double>(columns);
  const Norm norm = layer_norm(x, weight, Values(columns));
  NormGradients gradients{Values(x.size()), Values(columns), Values(columns)};
  for (std::size_t n = 0; n < rows; ++n) {
    double mean_g = 0, mean_gh = 0;
    const auto h = [&](std::size_t i) { return (x[n * columns + i] - norm.mean[n]) * norm.reciprocal_deviation[n]; };
    const auto g = [&](std::size_t i) { return dy[n * columns + i] * weight[i]; };
    for (std::size_t i = 0; i < columns; ++i) {
      mean_g += g(i) / count;
      mean_gh += g(i) * h(i) / count;
      gradients.dweight[i] += dy[n * columns + i] * h(i);
      gradients.dbias[i] += dy[n * columns + i];
    }
    for (std::size_t i = 0; i < columns; ++i)
      gradients.dx[n * columns + i] = norm.reciprocal_deviation[n] * (g(i) - mean_g - h(i) * mean_gh);
  }
  return gradients;
}

namespace {

/// Index of element i of (sequence b, position t, part, head).
struct Index {
  AttentionShape shape;
  std::size_t parts;
  std::size_t operator()(std::size_t b, std::size_t t, std::size_t part, std::size_t head, std::size_t i) const {
    return (((b * shape.positions + t) * parts + part) * shape.heads + head) * shape.head_size + i;
  }
};

/// Probabilities of row t over positions 0 … t, and the logarithm of their divisor.
struct Row {
  Values probabilities;
  double log_sum;
};
Row attention_row(const Values& qkv, AttentionShape shape, std::size_t b, std::size_t head, std::size_t t) {
  const Index at{shape, 3};
  Row row{Values(t + 1), 0};
  for (std::size_t u = 0; u <= t; ++u) {
    for (std::size_t i = 0; i < shape.head_size; ++i)
      row.probabilities[u] += qkv[at(b, t, 0, head, i)] * qkv[at(b, u, 1, head, i)];
    row.probabilities[u] /= std::sqrt(static_cast<double>(shape.head_size));
  }
  const double maximum = *std::max_element(row.probabilities.begin(), row.probabilities.end());
  double sum = 0;
  for (double score : row.probabilities) sum += std::exp(score - maximum);
  row.log_sum = maximum + std::log(sum);
  for (double& score : row.probabilities) score = std::exp(score - row.log_sum);
  return row;
}

template <class F>
void for_rows(AttentionShape shape, F f) {
  for (std::size_t b = 0; b < shape.batch; ++b)
    for (std::size_t head = 0; head < shape.heads; ++head)
      for (std::size_t t = 0; t < shape.positions; ++t) f(b, head, t);
}

}  // namespace

Attention attention(const Values& qkv, AttentionShape shape) {
  const Index in{shape, 3}, out{shape, 1};
  Attention result{Values(qkv.size() / 3), Values(shape.batch * shape.heads * shape.positions)};
  for_rows(shape, [&](std::size_t b, std::size_t head, std::size_t t) {
    const Row row = attention_row(qkv, shape, b, head, t);
    result.log_sums[(b * shape.heads + head) * shape.positions + t] = row.log_sum;
    for (std::size_t u = 0; u <= t; ++u)
      for (std::size_t i = 0; i < shape.head_size; ++i)
        result.y[out(b, t, 0, head, i)] += row.probabilities[u] * qkv[in(b, u, 2, head, i)];
  });
  return result;
}

Values attention_backward(const Values& dy, const Values& qkv, AttentionShape shape) {
  const Index in{shape, 3}, out{shape, 1};
  const double factor = 1 / std::sqrt(static_cast<double>(shape.head_size));
  Values gradient(qkv.size());
  for_rows(shape, [&](std::size_t b, std::size_t head, std::size_t t) {
    const Row row = attention_row(qkv, shape, b, head, t);
    Values of_probability(t + 1);
    double mean = 0;
    for (std::size_t u = 0; u <= t; ++u) {
      for (std::size_t i = 0; i < shape.head_size; ++i) {
        of_probability[u] += dy[out(b, t, 0, head, i)] * qkv[in(b, u, 2, head, i)];
        gradient[in(b, u, 2, head, i)] += row.probabilities[u] * dy[out(b, t, 0, head, i)];
      }
      mean += row.probabilities[u] * of_probability[u];
    }
    for (std::size_t u = 0; u <= t; ++u) {
      const double of_score = row.probabilities[u] * (of_probability[u] - mean) * factor;
      for (std::size_t i = 0; i < shape.head_size; ++i) {
        gradient[in(b, t, 0, head, i)] += of_score * qkv[in(b, u, 1, head, i)];
        gradient[in(b, u, 1, head, i)] += of_score * qkv[in(b, t, 0, head, i)];
      }
    }
  });
  return gradient;
}

Loss cross_entropy(const Values& logits, const std::vector<std::int32_t>& targets, double factor) {
  const std::size_t vocabulary = targets.empty() ? 0 : logits.size() / targets.size();
  Loss result{0, Values(logits.size())};
  for (std::size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] < 0) continue;
    const double* row = logits.data() + n * vocabulary;
    const double maximum = *std::max_element(row, row + vocabulary);
    double sum = 0;
    for (std::size_t i = 0; i < vocabulary; ++i) sum += std::exp(row[i] - maximum);
    const auto right = static_cast<std::size_t>(targets[n]);
    result.loss += factor * (maximum + std::log(sum) - row[right]);
    for (std::size_t i = 0; i < vocabulary; ++i)
      result.gradient[n * vocabulary + i] = factor * (std::exp(row[i] - maximum) / sum - (i == right ? 1 : 0));
  }
  return result;
}

}  // namespace lockstep::reference

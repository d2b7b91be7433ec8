// Arithmetic in double, written like the formulas: the reference for a device's results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/arithmetic.hpp"

namespace lockstep::reference {

using Values = std::vector<double>;

double gelu(double x);
double gelu_derivative(double x);

/// c[m × n] += a·b with a(i, k) = a[i·a_row + k·a_column], and the same for b. `magnitude` gets Σ |a||b|.
struct Product {
  Values value, magnitude;
};
Product product(const Values& a, bool a_transposed, const Values& b, bool b_transposed, std::size_t m, std::size_t n,
                std::size_t k);

struct Norm {
  Values y, mean, reciprocal_deviation;
};
Norm layer_norm(const Values& x, const Values& weight, const Values& bias);
struct NormGradients {
  Values dx, dweight, dbias;
};
NormGradients layer_norm_backward(const Values& dy, const Values& x, const Values& weight);

struct Attention {
  Values y, log_sums;
};
Attention attention(const Values& qkv, AttentionShape shape);
Values attention_backward(const Values& dy, const Values& qkv, AttentionShape shape);

struct Loss {
  double loss = 0;
  Values gradient;
};
Loss cross_entropy(const Values& logits, const std::vector<std::int32_t>& targets, double factor);

}  // namespace lockstep::reference

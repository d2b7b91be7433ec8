// 21.6 with the samples counted down, and a gap that is measured on a copy of the first gradient.
#include "labs/week21_data_parallel/accumulation.hpp"

#include <algorithm>
#include <cmath>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

std::vector<Microbatch> microbatches(std::size_t samples, std::size_t largest) {
  std::vector<Microbatch> parts;
  for (std::size_t left = samples; left > 0; left -= parts.back().count)
    parts.push_back({samples - left, std::min(left, largest)});
  return parts;
}

void accumulate_gradients(Rank me, Slice gradients, const std::vector<Microbatch>& parts,
                          const WeightedBackward& backward) {
  fill(me, gradients, 0);
  double samples = 0;
  std::vector<Microbatch> run;
  for (const Microbatch& part : parts) {
    samples += static_cast<double>(part.count);
    if (part.count != 0) run.push_back(part);
  }
  for (const Microbatch& part : run) backward(part, static_cast<float>(static_cast<double>(part.count) / samples));
}

double relative_gap(Rank me, Slice a, Slice b) {
  const auto norm = [&me](const Slice& x) {
    Slice squares = me.allocate(1, DType::f32, Category::buffer);
    fill(me, squares, 0);
    add_squares(me, squares, x);
    return std::sqrt(static_cast<double>(read(me, squares, 1)));
  };
  Slice minus_b = me.allocate(a.size(), DType::f32, Category::buffer);
  copy(me, minus_b, b);
  scale(me, minus_b, -1);
  Slice difference = me.allocate(a.size(), DType::f32, Category::buffer);
  add(me, difference, a, minus_b);
  return norm(difference) / norm(b);
}

}  // namespace lockstep::week21

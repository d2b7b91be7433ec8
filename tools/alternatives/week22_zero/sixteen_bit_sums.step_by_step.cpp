// Exercise 22.11 in another way: rounding by what is left over from the nearest multiple of the spacing; one exchange
// per step, with the rank so many places on; sums begin with zeros, and every rank sends its finished chunk to each of
// the others.
#include "labs/week22_zero/sixteen_bit_sums.hpp"

#include <cmath>

#include "common/arithmetic.hpp"

namespace lockstep::week22 {

float round_to_bf16(float value) {
  if (value == 0) return value;
  const float spacing = std::ldexp(1.0f, std::ilogb(value) - 7);
  return value - std::remainder(value, spacing);
}

float ring_sum(const std::vector<float>& values, int chunk) {
  const std::size_t p = values.size();
  float sum = 0;  // 0 plus a bf16 number is that number
  for (std::size_t step = 0; step < p; ++step)
    sum = round_to_bf16(sum + values[(static_cast<std::size_t>(chunk) + 1 + step) % p]);
  return sum;
}

void all_reduce_in_fp32(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  const Slice mine = chunk(data, r, p);
  const Slice parts = me.allocate(mine.size() * static_cast<std::size_t>(p), DType::bf16, Category::buffer);
  copy(me, chunk(parts, r, p), mine);
  for (int step = 1; step < p; ++step) {
    const int to = (r + step) % p, from = (r + p - step) % p;
    me.exchange({send(to, chunk(data, to, p)), receive(from, chunk(parts, from, p))});
  }
  const Slice sum = me.allocate(mine.size(), DType::f32, Category::buffer),
              one = me.allocate(mine.size(), DType::f32, Category::buffer);
  fill(me, sum, 0);
  for (int rank = 0; rank < p; ++rank) {
    cast(me, one, chunk(parts, rank, p));
    add(me, sum, one);
  }
  cast(me, mine, sum);
  std::vector<Transfer> batch;
  for (int step = 1; step < p; ++step) {
    const int to = (r + step) % p, from = (r + p - step) % p;
    batch.push_back(send(to, mine));
    batch.push_back(receive(from, chunk(data, from, p)));
  }
  me.exchange(batch);
}

SumErrors errors_of(const std::vector<std::vector<float>>& values) {
  const auto p = static_cast<int>(values.size());
  double square_of_ring = 0, square_of_once = 0, square = 0;
  for (std::size_t i = 0; i < values[0].size(); ++i) {
    std::vector<float> column(values.size());
    double exact = 0;
    float sum = 0;
    for (std::size_t r = 0; r < values.size(); ++r) exact += column[r] = values[r][i];
    for (const float value : column) sum += value;
    const double ring = ring_sum(column, chunk_of(values[0].size(), i, p)) - exact, once = round_to_bf16(sum) - exact;
    square_of_ring += ring * ring;
    square_of_once += once * once;
    square += exact * exact;
  }
  return {std::sqrt(square_of_ring) / std::sqrt(square), std::sqrt(square_of_once) / std::sqrt(square)};
}

}  // namespace lockstep::week22

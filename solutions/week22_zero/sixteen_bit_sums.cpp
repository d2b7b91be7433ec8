// Exercise 22.11: sums in 16 bits. Read labs/week22_zero/sixteen_bit_sums.hpp first.
#include "labs/week22_zero/sixteen_bit_sums.hpp"

#include <cmath>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {

float round_to_bf16(float value) {
  // lab 22.11a begin: 8 significant bits. std::frexp gives you an exponent, and std::nearbyint rounds to even
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
  // lab end
}

float ring_sum(const std::vector<float>& values, int chunk) {
  const int p = static_cast<int>(values.size());
  const auto of = [&](int rank) { return values[static_cast<std::size_t>(rank % p)]; };
  // lab 22.11a begin: the sum on the rank where the chunk is complete. On which rank does it begin?
  float sum = of(chunk + 1);
  for (int step = 2; step <= p; ++step) sum = round_to_bf16(sum + of(chunk + step));
  return sum;
  // lab end
}

void all_reduce_in_fp32(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  const Slice mine = chunk(data, r, p);
  // lab 22.11b begin: add up this rank's chunk of all ranks in fp32, in order, round it once, and send it to everybody
  const Slice all = me.allocate(mine.size() * static_cast<std::size_t>(p), DType::bf16, Category::buffer);
  const Slice sum = me.allocate(mine.size(), DType::f32, Category::buffer);
  const Slice next = me.allocate(mine.size(), DType::f32, Category::buffer);
  std::vector<Transfer> batch;
  for (int other = 0; other < p; ++other) {
    if (other == r) continue;
    batch.push_back(send(other, chunk(data, other, p)));
    batch.push_back(receive(other, chunk(all, other, p)));
  }
  me.exchange(batch);
  for (int other = 0; other < p; ++other) {
    cast(me, other == 0 ? sum : next, other == r ? mine : chunk(all, other, p));
    if (other > 0) add(me, sum, next);
  }
  cast(me, mine, sum);
  week21::ring_all_gather(me, data);
  // lab end
}

SumErrors errors_of(const std::vector<std::vector<float>>& values) {
  const int p = static_cast<int>(values.size());
  double ring = 0, once = 0, exact = 0;  // sums of squares
  for (std::size_t i = 0; i < values[0].size(); ++i) {
    // lab 22.11c begin: add the squares of element i's two errors, and of its exact sum
    std::vector<float> column;
    double sum = 0;
    float sum_in_fp32 = 0;
    for (const std::vector<float>& of_rank : values) {
      column.push_back(of_rank[i]);
      sum += of_rank[i];
      sum_in_fp32 += of_rank[i];
    }
    ring += std::pow(ring_sum(column, chunk_of(values[0].size(), i, p)) - sum, 2);
    once += std::pow(round_to_bf16(sum_in_fp32) - sum, 2);
    exact += sum * sum;
    // lab end
  }
  return {std::sqrt(ring / exact), std::sqrt(once / exact)};
}

}  // namespace lockstep::week22

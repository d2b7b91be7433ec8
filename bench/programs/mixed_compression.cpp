#include "bench/programs/mixed_compression.hpp"

#include <cmath>

#include "common/support/stats/mix.hpp"

namespace lockstep::bench {

using week21::Compression;
using week21::Method;

void mixed_all_reduce(Rank me, Slice data, std::size_t k, std::size_t block, Random key) {
  Scope scope = me.region("mixed_all_reduce", data.bytes());
  Slice values = me.allocate(k, data.dtype(), Category::buffer), indices = me.allocate(k, DType::i32, Category::buffer);
  Slice largest = me.allocate(data.size(), data.dtype(), Category::buffer);
  top_k(me, values, indices, data);
  scatter_add(me, data, values, indices, -1);
  week21::sparse_sum(me, largest, values, indices);
  week21::int8_two_step_all_reduce(me, data, block, key);
  add(me, data, largest);
}

double mixed_bytes_sent(const Compression& how, int ranks, double elements) {
  Compression rest = how, largest = how;
  rest.method = Method::int8_two_step;
  largest.method = Method::top_k;
  return week21::bytes_sent(rest, ranks, elements) + week21::bytes_sent(largest, ranks, elements);
}

double mixed_ranks_to_break_even(const Compression& how) {
  // Solves (p − 1)·8·density + 2(p − 1)/p·(1 + 4/block) = 2(p − 1)/p·4.
  const double eight_bits = 1 + 4 / static_cast<double>(how.block);
  return (4 - eight_bits) / (4 * how.density);
}

namespace {
double pareto(std::uint64_t bits) {
  const double uniform = (static_cast<double>(mix(bits) >> 12U) + 1) * 0x1p-52;  // in (0, 1]
  const double size = 1 / std::cbrt(uniform) - 1;
  return mix(~bits) % 2 == 0 ? size : -size;
}
}  // namespace

float heavy_tailed(int rank, std::size_t element) {
  const double shared = pareto(element), own = pareto((static_cast<std::uint64_t>(rank) + 1) << 40 | element);
  return static_cast<float>(shared + own / 2);
}

}  // namespace lockstep::bench

// Exercise 21.9: sums of compressed gradients. Read labs/week21_data_parallel/compression.hpp first.
//
// Two helpers of weeks past do half of the work: ring_all_gather (21.2b) makes chunk r of rank r everybody's, and
// chunk(data, r, p) cuts. An array of p·k elements has chunks of k: a block for each rank.
#include "labs/week21_data_parallel/compression.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "common/chunk.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {

std::size_t top_k_count(std::size_t elements, double density) {
  const double wanted = std::ceil(density * static_cast<double>(elements));
  return std::min(elements, static_cast<std::size_t>(std::max(wanted, 1.0)));
}

namespace {

std::size_t blocks_of(std::size_t elements, std::size_t block) { return (elements + block - 1) / block; }

Slice scratch(Rank me, std::size_t count, DType dtype) { return me.allocate(count, dtype, Category::buffer); }

/// The key of one rank's draws for a part of the data that begins at element `offset`.
Random drawn_by(Random key, int number, std::size_t offset = 0) {
  key.tensor += static_cast<std::uint64_t>(number);
  key.first += offset;
  return key;
}

}  // namespace

void sparse_sum(Rank me, Slice data, Slice values, Slice indices) {
  Scope scope = me.region("sparse_sum", data.bytes());
  const int p = me.size();
  const std::size_t k = values.size();
  Slice all_values = scratch(me, k * static_cast<std::size_t>(p), values.dtype());
  Slice all_indices = scratch(me, k * static_cast<std::size_t>(p), DType::i32);
  // lab 21.9a begin: my pairs into my block of both arrays, and both all-gathered; then, from zeros, every rank's pairs
  // added to `data` in the order of ranks: the same order everywhere, or the replicas' bits part
  copy(me, chunk(all_values, me.rank(), p), values);
  copy(me, chunk(all_indices, me.rank(), p), indices);
  ring_all_gather(me, all_values);
  ring_all_gather(me, all_indices);
  fill(me, data, 0);
  for (int r = 0; r < p; ++r) scatter_add(me, data, chunk(all_values, r, p), chunk(all_indices, r, p));
  // lab end
}

void top_k_all_reduce(Rank me, Slice data, Slice error, std::size_t k) {
  Slice values = scratch(me, k, data.dtype()), indices = scratch(me, k, DType::i32);
  if (error.empty()) {
    // lab 21.9b begin: without memory: the k largest elements of this step's gradient
    top_k(me, values, indices, data);
    // lab end
  } else {
    // lab 21.9b begin: with memory: add the gradient to what is owed, choose from the sum, and owe what was not chosen
    add(me, error, data);
    top_k(me, values, indices, error);
    scatter_add(me, error, values, indices, -1);  // what is sent is owed no more
    // lab end
  }
  sparse_sum(me, data, values, indices);
}

void int8_all_reduce(Rank me, Slice data, std::size_t block, Random key) {
  Scope scope = me.region("int8_all_reduce", data.bytes());
  const int p = me.size();
  Slice numbers = scratch(me, data.size() * static_cast<std::size_t>(p), DType::i8);
  Slice scales = scratch(me, blocks_of(data.size(), block) * static_cast<std::size_t>(p), DType::f32);
  // lab 21.9c begin: quantise into my block of both arrays, drawing with drawn_by(key, rank); all-gather both; then,
  // from zeros, add every rank's array in the order of ranks, my own rounded one among them
  quantise(me, chunk(numbers, me.rank(), p), chunk(scales, me.rank(), p), data, block, drawn_by(key, me.rank()));
  ring_all_gather(me, numbers);
  ring_all_gather(me, scales);
  fill(me, data, 0);
  for (int r = 0; r < p; ++r) add_dequantised(me, data, chunk(numbers, r, p), chunk(scales, r, p), block);
  // lab end
}

namespace {

/// n elements in eight bits, cut into a chunk for each rank, with as many scales for each chunk.
struct Rounded {
  Slice numbers;  // n i8
  Slice scales;   // p·⌈longest chunk / block⌉ f32
  std::size_t block;

  Rounded(Rank me, std::size_t n, std::size_t elements_of_block)
      : numbers(scratch(me, n, DType::i8)),
        scales(scratch(
            me, blocks_of(chunk_range(n, 0, me.size()).size, elements_of_block) * static_cast<std::size_t>(me.size()),
            DType::f32)),
        block(elements_of_block) {
    fill(me, scales, 0);  // also those that a shorter chunk does not use
  }
  /// Of chunk c of p: its numbers, all its scales, and those that it uses.
  Slice numbers_of(int c, int p) const { return chunk(numbers, c, p); }
  Slice scales_of(int c, int p) const { return chunk(scales, c, p); }
  Slice used_scales_of(int c, int p) const { return scales_of(c, p).cut(0, blocks_of(numbers_of(c, p).size(), block)); }
};

}  // namespace

void int8_two_step_all_reduce(Rank me, Slice data, std::size_t block, Random key) {
  Scope scope = me.region("int8_two_step_all_reduce", data.bytes());
  const int p = me.size(), self = me.rank();
  const ChunkRange own = chunk_range(data.size(), self, p);
  Rounded mine(me, data.size(), block);  // my chunks on their way out; later the sums of all
  // What ranks send me of my chunk: block r is rank r's.
  Slice numbers = scratch(me, own.size * static_cast<std::size_t>(p), DType::i8);
  Slice scales = scratch(me, mine.scales.size(), DType::f32);
  const auto used = [&](int r) { return chunk(scales, r, p).cut(0, blocks_of(own.size, block)); };
  for (int c = 0; c < p; ++c)
    quantise(me, mine.numbers_of(c, p), mine.used_scales_of(c, p), chunk(data, c, p), block,
             drawn_by(key, self, chunk_range(data.size(), c, p).offset));
  // lab 21.9d begin: one batch: chunk c of mine (numbers, then scales) to each peer c, its part of my chunk from it
  // into block c. Begin with the rank after yours: were all to begin with rank 0, they would wait for its port. My own
  // part needs no message: copy it
  std::vector<Transfer> batch;
  for (int i = 1; i < p; ++i) {
    const int peer = (self + i) % p;
    batch.push_back(send(peer, mine.numbers_of(peer, p)));
    batch.push_back(send(peer, mine.scales_of(peer, p)));
    batch.push_back(receive(peer, chunk(numbers, peer, p)));
    batch.push_back(receive(peer, chunk(scales, peer, p)));
  }
  copy(me, chunk(scales, self, p), mine.scales_of(self, p));
  copy(me, chunk(numbers, self, p), mine.numbers_of(self, p));
  me.exchange(batch);
  // lab end
  Slice sum = chunk(data, self, p);
  // lab 21.9d begin: my chunk's sum, from zeros and in the order of ranks; rounded again into mine, with
  // drawn_by(key, p + rank, own.offset); both all-gathered. Then every chunk of data is what was gathered: my own too,
  // since nobody else has seen the sum before it was rounded
  fill(me, sum, 0);
  for (int r = 0; r < p; ++r) add_dequantised(me, sum, chunk(numbers, r, p), used(r), block);
  quantise(me, mine.numbers_of(self, p), mine.used_scales_of(self, p), sum, block, drawn_by(key, p + self, own.offset));
  ring_all_gather(me, mine.numbers);
  ring_all_gather(me, mine.scales);
  fill(me, data, 0);
  for (int c = 0; c < p; ++c)
    add_dequantised(me, chunk(data, c, p), mine.numbers_of(c, p), mine.used_scales_of(c, p), block);
  // lab end
}

double bytes_sent(const Compression& how, int ranks, double elements) {
  const double p = ranks, eight_bits = 1 + 4 / static_cast<double>(how.block);  // bytes an element, its scale included
  // lab 21.9e begin: a ring of f32 sends each element 2(p − 1)/p times, an all-gather of whole arrays p − 1 times. What
  // does each method send of an element?
  switch (how.method) {
    case Method::ring: return 2 * (p - 1) / p * 4 * elements;
    case Method::top_k: return (p - 1) * 8 * how.density * elements;
    case Method::int8: return (p - 1) * eight_bits * elements;
    case Method::int8_two_step: return 2 * (p - 1) / p * eight_bits * elements;
  }
  usage_error("no such method");
  // lab end
}

double ranks_to_break_even(const Compression& how) {
  const double eight_bits = 1 + 4 / static_cast<double>(how.block);
  // lab 21.9e begin: p for which bytes_sent is that of the ring; it is the ring itself from 1 on, and two steps never
  switch (how.method) {
    case Method::ring: return 1;
    case Method::top_k: return 1 / how.density;
    case Method::int8: return 8 / eight_bits;
    case Method::int8_two_step: return std::numeric_limits<double>::infinity();
  }
  usage_error("no such method");
  // lab end
}

namespace {

/// What has to be kept between steps.
class Compressor {
 public:
  Compressor(Rank dp, const Parameters& parameters, const Compression& how, StepsDone steps)
      : how_(how), steps_(std::move(steps)), gradients_(parameters.gradients) {
    if (!(how.density > 0 && how.density <= 1)) usage_error("the density of top-k lies above 0 and is at most 1");
    if (how.block == 0) usage_error("a block of int8 numbers has at least one element");
    if (gradients_.dtype() != DType::f32) usage_error("compression wants gradients in f32");
    if (how.method != Method::top_k || !how.feedback) return;
    errors_ = dp.allocate(gradients_.size(), DType::f32, Category::optimizer);
    fill(dp, errors_, 0);
  }

  void sum(Rank me, const Slice& data) {
    if (how_.method == Method::ring || data.block() != gradients_.block()) return ring_all_reduce(me, data);
    const std::size_t offset = (data.offset_bytes() - gradients_.offset_bytes()) / bytes_of(DType::f32);
    const Random key{.seed = how_.seed, .tensor = 0, .step = steps_ ? steps_() : sums_++, .first = offset};
    if (how_.method == Method::int8) return int8_all_reduce(me, data, how_.block, key);
    if (how_.method == Method::int8_two_step) return int8_two_step_all_reduce(me, data, how_.block, key);
    const Slice error = errors_.empty() ? Slice{} : errors_.cut(offset, data.size());
    top_k_all_reduce(me, data, error, top_k_count(data.size(), how_.density));
  }

 private:
  Compression how_;
  StepsDone steps_;
  Slice gradients_;
  Slice errors_;            // of the flat gradients
  std::uint64_t sums_ = 0;  // so far: without steps_, each has its own random numbers
};

}  // namespace

AllReduce compressed_all_reduce(Rank dp, const Parameters& parameters, const Compression& how, StepsDone steps) {
  auto compressor = std::make_shared<Compressor>(dp, parameters, how, std::move(steps));
  return [compressor](Rank me, const Slice& data) { compressor->sum(me, data); };
}

}  // namespace lockstep::week21

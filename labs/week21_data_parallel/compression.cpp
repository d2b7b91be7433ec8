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
  todo("21.9a",
       "`data` becomes the sum of all ranks' pairs, which every rank has in both arrays afterwards; added in the "
       "same order everywhere, or the replicas' bits differ");
}

void top_k_all_reduce(Rank me, Slice data, Slice error, std::size_t k) {
  Slice values = scratch(me, k, data.dtype()), indices = scratch(me, k, DType::i32);
  if (error.empty()) {
    todo("21.9b", "without error feedback: the k largest elements of this step's gradient");
  } else {
    todo("21.9b",
         "with error feedback: the k largest elements of the gradient and what is owed from earlier steps, `error`, "
         "together; `error` becomes what is owed now");
  }
  sparse_sum(me, data, values, indices);
}

void int8_all_reduce(Rank me, Slice data, std::size_t block, Random key) {
  Scope scope = me.region("int8_all_reduce", data.bytes());
  const int p = me.size();
  Slice numbers = scratch(me, data.size() * static_cast<std::size_t>(p), DType::i8);
  Slice scales = scratch(me, blocks_of(data.size(), block) * static_cast<std::size_t>(p), DType::f32);
  todo("21.9c",
       "`data` becomes the sum of all ranks' arrays, each as it was rounded with drawn_by(key, rank), my own too; "
       "added in rank order, so that all have the same bits");
}

namespace {

/// An array in eight bits: a chunk of numbers for each rank, and as many scales for each chunk as the longest needs.
struct Rounded {
  Slice numbers;  // i8
  Slice scales;   // f32
  int p;
  std::size_t block;

  Slice numbers_of(int c) const { return chunk(numbers, c, p); }
  Slice scales_of(int c) const { return chunk(scales, c, p).cut(0, blocks_of(numbers_of(c).size(), block)); }

  void round(Rank me, int c, const Slice& from, Random key) const {
    quantise(me, numbers_of(c), scales_of(c), from, block, key);
  }
  void add_to(Rank me, const Slice& sum, int c, float factor = 1) const {
    add_dequantised(me, sum, numbers_of(c), scales_of(c), block, factor);
  }
};

/// Memory for one of `elements`, whose longest chunk has `longest`.
Rounded allocate_rounded(Rank me, std::size_t elements, std::size_t longest, std::size_t block) {
  const std::size_t scales = blocks_of(longest, block) * static_cast<std::size_t>(me.size());
  return {scratch(me, elements, DType::i8), scratch(me, scales, DType::f32), me.size(), block};
}

/// Chunk c of everybody's `outgoing` to rank c: the transfers that fill `incoming`, whose chunk r is rank r's.
std::vector<Transfer> all_to_all(Rank me, const Slice& outgoing, const Slice& incoming) {
  const int p = me.size(), self = me.rank();
  std::vector<Transfer> batch;
  todo("21.9d",
       "a batch after which chunk i of `incoming` is what rank i had for me in its `outgoing`; my own chunk is there "
       "at once, without a message. In which order? If all began with rank 0, they would wait for its port");
  return batch;
}

/// int8_two_step_all_reduce. An `error` that is not empty becomes what is owed: what rounding took from this rank's
/// array in the first half, and from its chunk of the sum in the second.
void int8_in_two_steps(Rank me, Slice data, Slice error, std::size_t block, Random key) {
  Scope scope = me.region("int8_two_step_all_reduce", data.bytes());
  const int p = me.size(), self = me.rank();
  const std::size_t longest = chunk_range(data.size(), 0, p).size;
  const ChunkRange own = chunk_range(data.size(), self, p);
  const Rounded mine = allocate_rounded(me, data.size(), longest, block);  // the outgoing values; later the sums of all
  const Rounded parts = allocate_rounded(me, own.size * static_cast<std::size_t>(p), longest, block);  // of my chunk
  fill(me, mine.scales, 0);  // also those that a shorter chunk does not use, which are sent too
  for (int c = 0; c < p; ++c)
    mine.round(me, c, chunk(data, c, p), drawn_by(key, self, chunk_range(data.size(), c, p).offset));
  if (!error.empty()) {
    todo("21.9f", "`error` becomes `data` less what `mine` says of it, chunk by chunk");
  }
  std::vector<Transfer> batch = all_to_all(me, mine.numbers, parts.numbers);
  for (const Transfer& transfer : all_to_all(me, mine.scales, parts.scales)) batch.push_back(transfer);
  me.exchange(batch);
  const Slice sum = error.empty() ? chunk(data, self, p) : scratch(me, own.size, DType::f32);
  todo("21.9d",
       "`mine` becomes all ranks' chunks of the sum, each added in rank order and rounded again, with drawn_by(key, "
       "p + rank, own.offset); `data` is what it says. My own chunk too, since no other rank has seen the sum before "
       "it was rounded");
  if (!error.empty()) {
    todo("21.9f",
         "my chunk of the sum was rounded as well, and no other rank has seen `sum` itself: I owe what is missing, "
         "in addition to what I owe already");
  }
}

}  // namespace

void int8_two_step_all_reduce(Rank me, Slice data, std::size_t block, Random key) {
  int8_in_two_steps(me, data, {}, block, key);
}

void mixed_all_reduce(Rank me, Slice data, Slice error, std::size_t k, std::size_t block, Random key) {
  Scope scope = me.region("mixed_all_reduce", data.bytes());
  Slice values = scratch(me, k, data.dtype()), indices = scratch(me, k, DType::i32);
  Slice largest = scratch(me, data.size(), data.dtype());
  todo("21.9f",
       "what is to be sent is the gradient and what is owed, if there is an `error`. `data` becomes the sum of "
       "everybody's k largest elements of that, exactly, and of all others in eight bits; `error` what is owed now");
}

namespace {

/// Bytes of mixed sums: those of both parts.
double bytes_of_both(Compression how, int ranks, double elements) {
  how.method = Method::top_k;
  const double largest = bytes_sent(how, ranks, elements);
  how.method = Method::int8_two_step;
  return largest + bytes_sent(how, ranks, elements);
}

}  // namespace

double bytes_sent(const Compression& how, int ranks, double elements) {
  const double p = ranks, eight_bits = 1 + 4 / static_cast<double>(how.block);  // bytes an element, its scale included
  if (how.method == Method::mixed) return bytes_of_both(how, ranks, elements);
  todo("21.9e",
       "a ring of f32 sends each element 2(p − 1)/p times, an all-gather of whole arrays p − 1 times. How many bytes "
       "does each method send per element, and how often?");
}

double ranks_to_break_even(const Compression& how) {
  const double eight_bits = 1 + 4 / static_cast<double>(how.block);
  if (how.method == Method::mixed) {
    double ranks = 0;
    todo("21.9f", "`ranks` becomes the p at which both parts together send as much as the ring");
    return ranks;
  }
  todo("21.9e", "the p at which bytes_sent equals the ring's: 1 for the ring itself, never for two steps");
}

namespace {

/// State between steps.
class Compressor {
 public:
  Compressor(Rank dp, const Parameters& parameters, const Compression& how, StepsDone steps)
      : how_(how), steps_(std::move(steps)), gradients_(parameters.gradients) {
    if (!(how.density > 0 && how.density <= 1)) usage_error("the density of top-k lies above 0 and is at most 1");
    if (how.block == 0) usage_error("a block of int8 numbers has at least one element");
    if (gradients_.dtype() != DType::f32) usage_error("compression wants gradients in f32");
    if (!keeps_errors(how)) return;
    errors_ = dp.allocate(gradients_.size(), DType::f32, Category::optimizer);
    fill(dp, errors_, 0);
  }

  void sum(Rank me, const Slice& data) {
    if (how_.method == Method::ring || !data.shares_memory_with(gradients_)) return ring_all_reduce(me, data);
    const std::size_t offset = (data.offset_bytes() - gradients_.offset_bytes()) / bytes_of(DType::f32);
    const Random key{.seed = how_.seed, .tensor = 0, .step = steps_ ? steps_() : sums_++, .first = offset};
    if (how_.method == Method::int8) return int8_all_reduce(me, data, how_.block, key);
    if (how_.method == Method::int8_two_step) return int8_two_step_all_reduce(me, data, how_.block, key);
    const Slice error = errors_.empty() ? Slice{} : errors_.cut(offset, data.size());
    const std::size_t k = top_k_count(data.size(), how_.density);
    if (how_.method == Method::mixed) return mixed_all_reduce(me, data, error, k, how_.block, key);
    top_k_all_reduce(me, data, error, k);
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

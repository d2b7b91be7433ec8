// Sums of compressed gradients compared with the ring: bytes and seconds over the number of ranks, and where
// compression loses.
//
// The methods are exercise 21.9's; topk+int8 is part f's, without error feedback. `relative_error` shows the error of
// each on a gradient with few large elements, since bytes alone do not decide. With --bf16 there are also sums of
// gradients rounded to bf16: 21.2's ring, and exercise 22.11's.
//
//   ./lab bench compression --machine pcie-box-10gbe --ranks 2,4,8,16,32,64 --bytes 25MiB --phantom
//   ./lab bench compression --backend mpi --ranks 2 --bytes 4MiB --density 0.01
//   ./lab bench compression --machine pcie-box-10gbe --ranks 2,8,64 --bytes 4MiB --bf16
#include "labs/week21_data_parallel/compression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/programs/heavy_tails.hpp"
#include "bench/support/bench.hpp"
#include "common/runtime/convert.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/sixteen_bit_sums.hpp"

namespace lockstep::bench {
namespace {

using week21::Compression;
using week21::Method;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kErrorElements = 1 << 16;  // largest array for relative_error

struct CompressionOptions {
  std::string bytes = "25MiB";
  std::vector<std::string> densities{"0.01"};
  int block = 256;
  bool bf16 = false;
};

/// The sum of arrays rounded to bf16: in the ring, which rounds every sum, or by 22.11b, which rounds one.
enum class Rounded { no, ring, once };

struct Named {
  std::string name;
  Compression how;
  Rounded rounded = Rounded::no;
};

std::vector<Named> methods_of(const CompressionOptions& o) {
  const auto block = static_cast<std::size_t>(o.block);
  std::vector<Named> methods{{"ring", {}}};
  for (const std::string& density : o.densities)
    methods.push_back(
        {"topk:" + density, {.method = Method::top_k, .density = number_in("--density", density, 1e-9, 1)}});
  methods.push_back({"int8", {.method = Method::int8, .block = block}});
  methods.push_back({"int8-two-step", {.method = Method::int8_two_step, .block = block}});
  for (const std::string& density : o.densities) {
    const double share = number_in("--density", density, 1e-9, 1);
    methods.push_back(
        {"topk+int8:" + density, {.method = Method::mixed, .density = share, .feedback = false, .block = block}});
  }
  if (o.bf16) {
    methods.push_back({"bf16", {}, Rounded::ring});
    methods.push_back({"bf16-fp32-sums", {}, Rounded::once});
  }
  return methods;
}

std::size_t kept(const Compression& how, std::size_t elements) { return week21::top_k_count(elements, how.density); }

/// Every rank's input, for which each method's sum is exact. Top-k: nothing beyond the elements that it keeps. Others:
/// one magnitude everywhere, which eight bits represent. Mixed: one magnitude for each part. bf16: 1 or −1.
std::vector<float> input(const Named& method, std::size_t elements) {
  std::vector<float> values(elements, 0.0f);
  const std::size_t filled = method.how.method == Method::top_k ? kept(method.how, elements) : elements;
  for (std::size_t i = 0; i < filled; ++i) values[i] = i % 3 == 0 ? -127.0f : 127.0f;
  for (float& value : values)
    if (method.rounded != Rounded::no) value /= 127;
  const bool mixed = method.how.method == Method::mixed;
  for (std::size_t i = 0; mixed && i < kept(method.how, elements); ++i) values[i] *= 100;
  return values;
}

/// Makes the sum once, with the state that it keeps between steps.
week21::AllReduce sum_of(const Named& method, Rank me, const Parameters& parameters) {
  const Compression& how = method.how;
  if (method.rounded != Rounded::no)
    return [sum = method.rounded == Rounded::ring ? week21::ring_all_reduce : week22::all_reduce_in_fp32](
               Rank group, const Slice& data) {
      const Slice rounded = group.allocate(data.size(), DType::bf16, Category::buffer);
      cast(group, rounded, data);
      sum(group, rounded);
      cast(group, data, rounded);
    };
  return week21::compressed_all_reduce(me, parameters, how);
}

/// Every rank's gradients, with few large elements; in bf16, rounded.
std::vector<std::vector<float>> gradients(int ranks, std::size_t elements, DType type) {
  std::vector<std::vector<float>> of_ranks(static_cast<std::size_t>(ranks), std::vector<float>(elements));
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < elements; ++i) {
      float& value = of_ranks[static_cast<std::size_t>(rank)][i];
      value = heavy_tailed(rank, i);
      if (type == DType::bf16) value = from_bf16(to_bf16(value));
    }
  return of_ranks;
}

/// ‖sum − exact sum‖ / ‖exact sum‖ of one act on rank 0.
double relative_error(const RunOptions& options, const Named& method, const std::vector<std::vector<float>>& of_ranks) {
  const std::size_t elements = of_ranks[0].size();
  std::vector<double> exact(elements);
  for (const std::vector<float>& values : of_ranks)
    for (std::size_t i = 0; i < elements; ++i) exact[i] += static_cast<double>(values[i]);
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    Parameters parameters;
    parameters.gradients = me.allocate(elements, DType::f32, Category::gradient);
    upload(me, parameters.gradients, of_ranks[static_cast<std::size_t>(me.rank())]);
    sum_of(method, me, parameters)(me, parameters.gradients);
    const std::vector<float> values = to_host(me, parameters.gradients);
    double error = 0, whole = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      error += (static_cast<double>(values[i]) - exact[i]) * (static_cast<double>(values[i]) - exact[i]);
      whole += exact[i] * exact[i];
    }
    return {std::sqrt(error / whole)};
  });
  return outcome.check().values[0][0];
}

Prepared prepare(const Named& method, std::size_t elements, Rank me, Purpose purpose) {
  Parameters parameters;
  parameters.gradients = me.allocate(elements, DType::f32, Category::gradient);
  Slice data = parameters.gradients;
  if (purpose == Purpose::verify)
    upload(me, data, input(method, elements));
  else
    fill(me, data, 0);  // so that repeated sums stay finite
  const week21::AllReduce sum = sum_of(method, me, parameters);
  return {.act = [=] { sum(me, data); },
          .right =
              [=] {
                std::vector<float> expected = input(method, elements);
                for (float& value : expected) value *= static_cast<float>(me.size());
                return to_host(me, data) == expected;
              }};
}

/// A rank's arithmetic between its messages, with arrays as long as on `ranks` ranks.
void compute(Rank me, const Compression& how, Slice data, int ranks) {
  const std::size_t n = data.size(), k = kept(how, n), blocks = (n + how.block - 1) / how.block;
  const auto buffer = [&](std::size_t count, DType dtype) { return me.allocate(count, dtype, Category::buffer); };
  if (how.method == Method::top_k) {
    Slice values = buffer(k, DType::f32), indices = buffer(k, DType::i32), error = buffer(n, DType::f32);
    Slice sent = buffer(k, DType::f32), sent_indices = buffer(k, DType::i32);
    top_k(me, values, indices, data);  // as much work as with error feedback, in another order
    add(me, error, data);
    scatter_add(me, error, values, indices, -1);
    copy(me, sent, values);
    copy(me, sent_indices, indices);
    fill(me, data, 0);
    for (int r = 0; r < ranks; ++r) scatter_add(me, data, values, indices);
    return;
  }
  Slice numbers = buffer(n, DType::i8), scales = buffer(blocks, DType::f32);
  if (how.method == Method::int8) {
    quantise(me, numbers, scales, data, how.block, {});
    fill(me, data, 0);
    for (int r = 0; r < ranks; ++r) add_dequantised(me, data, numbers, scales, how.block);
    return;
  }
  // Two steps: quantise every chunk and keep this rank's; add up p of them and quantise the sum; assemble p chunks.
  const std::size_t chunk = (n + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  const std::size_t of_chunk = (chunk + how.block - 1) / how.block;
  Slice part = data.cut(0, chunk), few = numbers.cut(0, chunk), its = scales.cut(0, of_chunk);
  fill(me, scales, 0);
  for (int r = 0; r < ranks; ++r) quantise(me, few, its, part, how.block, {});
  copy(me, buffer(of_chunk, DType::f32), its);
  copy(me, buffer(chunk, DType::i8), few);
  fill(me, part, 0);
  for (int r = 0; r < ranks; ++r) add_dequantised(me, part, few, its, how.block);
  quantise(me, few, its, part, how.block, {});
  fill(me, data, 0);
  for (int r = 0; r < ranks; ++r) add_dequantised(me, part, few, its, how.block);
}

/// Additional arithmetic of the mixed method: chooses and removes the largest elements, adds up p of them, and adds
/// both sums.
void compute_largest(Rank me, const Compression& how, Slice data, int ranks) {
  const std::size_t k = kept(how, data.size());
  const auto buffer = [&](std::size_t count, DType dtype) { return me.allocate(count, dtype, Category::buffer); };
  Slice largest = buffer(k, DType::f32), places = buffer(k, DType::i32), sums = buffer(data.size(), DType::f32);
  top_k(me, largest, places, data);
  scatter_add(me, data, largest, places, -1);
  copy(me, buffer(k, DType::f32), largest);
  copy(me, buffer(k, DType::i32), places);
  fill(me, sums, 0);
  for (int r = 0; r < ranks; ++r) scatter_add(me, sums, largest, places);
  add(me, data, sums);
}

/// Arithmetic, apart from the messages, of summing an array that is rounded to bf16; for the ring without its
/// additions, which the ring's formula has.
void compute_rounded(Rank me, Rounded rounded, Slice data, int ranks) {
  const auto buffer = [&](std::size_t count, DType dtype) { return me.allocate(count, dtype, Category::buffer); };
  const Slice in_bf16 = buffer(data.size(), DType::bf16);
  cast(me, in_bf16, data);
  if (rounded == Rounded::once) {
    const Slice part = chunk(in_bf16, 0, ranks);
    const Slice sum = buffer(part.size(), DType::f32), next = buffer(part.size(), DType::f32);
    cast(me, sum, part);
    for (int r = 1; r < ranks; ++r) {
      cast(me, next, part);
      add(me, sum, next);
    }
    cast(me, part, sum);
  }
  cast(me, data, in_bf16);
}

/// Seconds of `compute` on one rank; in real time the median of nine.
double compute_seconds(RunOptions options, const Named& method, std::size_t elements, int ranks) {
  options.ranks = 1;
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    Slice data = me.allocate(elements, DType::f32, Category::gradient);
    std::vector<double> samples;
    for (int i = 0; i < (time_is_virtual() ? 1 : 9); ++i) {
      fill(me, data, 1);
      const double begin = me.now();
      if (method.rounded == Rounded::no)
        compute(me, method.how, data, ranks);
      else
        compute_rounded(me, method.rounded, data, ranks);
      if (method.how.method == Method::mixed) compute_largest(me, method.how, data, ranks);
      samples.push_back(me.now() - begin);
    }
    return {median(samples).value};
  });
  return outcome.check().values[0][0];
}

double bytes_sent(const Named& method, int ranks, double elements) {
  if (method.rounded != Rounded::no) elements /= 2;  // each of half the bytes
  return week21::bytes_sent(method.how, ranks, elements);
}

double ranks_to_break_even(const Named& method) {
  if (method.rounded != Rounded::no) return std::numeric_limits<double>::infinity();
  return week21::ranks_to_break_even(method.how);
}

/// Predicts the arithmetic and two all-gathers of p − 1 messages each; in two steps, first a batch to all peers; for
/// 22.11b a batch and one all-gather.
/// Assumes that each rank has its own link. If ranks of a node share one, it carries the batches of all of them, but
/// only one rank's messages of a ring.
double predicted_seconds(const Named& method, const LinkPrices& prices, int ranks, std::size_t elements,
                         double compute) {
  const Compression& how = method.how;
  const double n = static_cast<double>(elements);
  const double ring_bytes = (method.rounded == Rounded::no ? 4 : 2) * n;
  if (how.method == Method::ring && method.rounded != Rounded::once)
    return compute +
           week21::ring_all_reduce_seconds({prices.alpha, prices.beta, prices.gamma, prices.launch}, ranks, ring_bytes);
  const double bytes = bytes_sent(method, ranks, n) * prices.beta;
  const bool mixed = how.method == Method::mixed, once = method.rounded == Rounded::once;
  const double gathers = once ? 1 : mixed ? 4 : 2;  // of p − 1 messages
  const bool batch = how.method == Method::int8_two_step || mixed || once;
  const double steps = gathers * (ranks - 1) + (batch ? 1 : 0);
  return compute + bytes + (ranks > 1 ? steps * prices.alpha : 0);
}

/// 22.11c's prediction of the error of a sum of these bf16 gradients.
double predicted_error(const Named& method, const std::vector<std::vector<float>>& of_ranks) {
  const week22::SumErrors errors = week22::errors_of(of_ranks);
  return method.rounded == Rounded::ring ? errors.ring : errors.once;
}

/// `lines`: printed below the table.
void add_size(Bench& bench, const std::vector<Named>& methods, int ranks, std::uint64_t bytes,
              std::vector<std::string>& lines) {
  if (ranks == 1)
    throw Error(Verdict::usage, "--ranks 1: a single rank sends nothing that could be compressed; use at least 2");
  const std::size_t elements = f32_elements(bytes);
  const RunOptions options = bench.run_options(ranks);
  const LinkPrices prices = bench.prices(ranks);
  std::vector<Contender> contenders;
  std::vector<double> errors, sum_errors, predicted_sum_errors;  // the last two: of what is in bf16 already
  const std::size_t few = std::min(elements, kErrorElements);
  const auto exact = options.phantom ? std::vector<std::vector<float>>{} : gradients(ranks, few, DType::f32);
  const auto rounded = options.phantom ? exact : gradients(ranks, few, DType::bf16);
  for (const Named& method : methods) {
    const Compression how = method.how;
    const bool plain = how.method == Method::ring && method.rounded == Rounded::no;
    const double compute = plain ? 0 : compute_seconds(options, method, elements, ranks);
    errors.push_back(options.phantom ? kNone : relative_error(options, method, exact));
    const bool sums = method.rounded != Rounded::no && !options.phantom;
    sum_errors.push_back(sums ? relative_error(options, method, rounded) : kNone);
    predicted_sum_errors.push_back(sums ? predicted_error(method, rounded) : kNone);
    if (sums)
      lines.push_back(
          fmt::format("error of a sum of bf16 gradients of {} ranks, {}: predicted {:.3f}%, measured {:.3f}%", ranks,
                      method.name, 100 * predicted_sum_errors.back(), 100 * sum_errors.back()));
    contenders.push_back({.name = method.name,
                          .prepare = [=](Rank me, Purpose purpose) { return prepare(method, elements, me, purpose); },
                          .predicted_seconds = predicted_seconds(method, prices, ranks, elements, compute)});
  }
  bench.add(fmt::format("{} ranks/{}", ranks, format_bytes(static_cast<double>(bytes))), options, contenders,
            [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              row.set("bytes", bytes);
              row.set("predicted_bytes_sent_per_rank", bytes_sent(methods[i], ranks, static_cast<double>(elements)));
              row.set("relative_bytes", static_cast<double>(group[i].bytes_sent_per_rank_max) /
                                            static_cast<double>(group[0].bytes_sent_per_rank_max));
              row.set("relative_seconds", group[i].seconds.value / group[0].seconds.value);
              row.set("ranks_to_break_even", ranks_to_break_even(methods[i]));
              row.set("relative_error", errors[i]);
              if (methods[i].rounded == Rounded::no) return;
              row.set("predicted_sum_error", predicted_sum_errors[i]).set("sum_error", sum_errors[i]);
            });
}

void print_bytes(const std::vector<Named>& methods) {
  fmt::print("sends as many bytes as the ring from");
  for (const Named& method : methods)
    if (method.how.method != Method::ring) {
      const double even = ranks_to_break_even(method);
      fmt::print("  {}: {}", method.name, std::isinf(even) ? "never" : fmt::format("p = {:.3g}", even));
    }
  fmt::print("\n");
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::CompressionOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--bytes", o.bytes, "size of the array: one, several separated by commas, or FIRST:LAST doubling");
    line.add("--density", o.densities,
             "shares of the elements that top-k sends, also in topk+int8; separate several with commas");
    line.add("--block", o.block, "int8: elements that share one scale", Whole{1});
    line.add("--bf16", o.bf16,
             "also sums of gradients rounded to bf16: the ring's, and with additions in fp32 (22.11)");
  };
  return bench::bench_main("compression", "All-reduces of compressed gradients compared with the ring: bytes and time.",
                           argc, argv, declare, [&](bench::Bench& bench) {
                             const auto methods = bench::methods_of(o);
                             std::vector<std::string> lines;
                             for (const int ranks : bench.ranks())
                               for (const std::uint64_t size : parse_byte_sizes(o.bytes))
                                 bench::add_size(bench, methods, ranks, size, lines);
                             bench.run([&](const std::vector<Row>&) {
                               if (!is_judge()) return;
                               bench::print_bytes(methods);
                               for (const std::string& each : lines) fmt::print("{}\n", each);
                             });
                           });
}

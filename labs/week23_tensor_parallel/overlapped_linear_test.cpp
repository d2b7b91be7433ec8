// Tests of exercise 23.9, parts a and b: both layers against the serial one, their messages and memory, and their
// overlap. overlapped_linear_pays_test.cpp has part c.
#include "labs/week23_tensor_parallel/overlapped_linear.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/testing/cases.hpp"
#include "labs/week23_tensor_parallel/overlapped_linear_testing.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"

namespace lockstep::week23::overlapped_linear_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::CaseProgram;
using testing::run_cases;

constexpr std::size_t kIn = 4, kOut = 3;  // of a rank's weight

/// A case's size is N/p.
CasePlan plan() {
  CasePlan plan;
  plan.sizes = drawn_sizes({1, 3}, 4);
  plan.unit = "row per rank";
  return plan;
}

/// The whole layer: a rank has kOut of its output features, or kIn of its input features.
SerialLinear whole_layer(const Case& c, Half half) {
  const bool gather = half == Half::gather;
  return {c.size * number(c.ranks), gather ? kIn : kIn * number(c.ranks), gather ? kOut * number(c.ranks) : kOut};
}

/// A rank's arrays.
struct Arrays {
  Slice x, y;
  LinearTensors values;
  Arrays(Rank me, const Case& c, Half half, bool bias) {
    const SerialLinear whole = whole_layer(c, half);
    const std::size_t r = number(me.rank());
    const bool gather = half == Half::gather;
    x = uploaded(me, gather ? cut_rows(whole.x, r * c.size, c.size) : cut_columns(whole.x, r * kIn, kIn));
    const HostMatrix weight = gather ? cut_rows(whole.weight, r * kOut, kOut) : cut_columns(whole.weight, r * kIn, kIn);
    values.weight = uploaded(me, weight, Category::parameter);
    if (bias) values.bias = uploaded(me, gather ? cut_columns(whole.bias, r * kOut, kOut) : whole.bias);
    y = unwritten(me, (gather ? c.size * number(me.size()) : c.size) * kOut);
  }
};

CaseProgram ring_run(Half half, bool bias = true) {
  return [=](Rank me, const Case& c) {
    const Arrays a(me, c, half, bias);
    const std::size_t rows = c.size * number(me.size());
    const TensorParallel tp = make_tensor_parallel(me);
    (half == Half::gather ? column_forward_ring : row_forward_ring)(tp, a.y, a.x, a.values, rows, "ring");
    Values seen;
    for (const Slice& slice : {a.y, a.x}) append(seen, to_host(me, slice));
    return seen;
  };
}

HostMatrix without_bias(const HostMatrix& y, const HostMatrix& bias, float times = -1) { return plus(y, bias, times); }

/// Blocks of rows where they would be if the k-th that is held went to place `place(k)`.
template <class Place>
HostMatrix moved_blocks(const HostMatrix& y, int rank, int ranks, const Place& place) {
  HostMatrix moved = y;
  const std::size_t block = y.values.size() / number(ranks);
  for (int k = 0; k < ranks; ++k) {
    const auto from = y.values.begin() + static_cast<std::ptrdiff_t>(block * number((rank - k + ranks) % ranks));
    std::copy(from, from + static_cast<std::ptrdiff_t>(block),
              moved.values.begin() + static_cast<std::ptrdiff_t>(block * number(place(k))));
  }
  return moved;
}

constexpr const char* kWrongPlaces =
    "the blocks of rows are in the wrong places. After k steps you hold those of rank r − k, which belong into chunk r "
    "− k of y";

std::string wrong_column(const Case& c, const Outcome& outcome, bool bias) {
  const SerialLinear whole = whole_layer(c, Half::gather);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const HostMatrix own_bias = cut_columns(whole.bias, number(rank) * kOut, kOut);
    HostMatrix y = cut_columns(whole.y(), number(rank) * kOut, kOut);
    if (!bias) y = without_bias(y, own_bias);
    Reader reader(outcome.values[number(rank)], rank);
    reader.expect("y", y,
                  {{without_bias(y, own_bias), "the bias is missing"},
                   {moved_blocks(y, rank, c.ranks, [](int k) { return k; }), kWrongPlaces},
                   {moved_blocks(y, rank, c.ranks, [&](int k) { return (rank + k) % c.ranks; }), kWrongPlaces}});
    reader.expect("x after the call", cut_rows(whole.x, number(rank) * c.size, c.size));
    if (!reader.complaint().empty()) return reader.complaint();
  }
  return "";
}

/// Rank `rank`'s y where each rank begins with the rows of rank r + `first` and continues with those of the ranks after
/// it, in place of those before it.
HostMatrix mixed_sum(const SerialLinear& whole, const Case& c, int rank, int first) {
  HostMatrix sum;
  for (int hops = 0; hops < c.ranks; ++hops) {
    const int from = (rank - hops + c.ranks) % c.ranks, rows = (from + first + c.ranks - 1 - hops) % c.ranks;
    const HostMatrix part =
        product(cut_rows(cut_columns(whole.x, number(from) * kIn, kIn), number(rows) * c.size, c.size),
                cut_columns(whole.weight, number(from) * kIn, kIn), Transposed::b);
    sum = hops == 0 ? part : plus(sum, part);
  }
  return sum;
}

std::string wrong_row(const Case& c, const Outcome& outcome, bool bias) {
  const SerialLinear whole = whole_layer(c, Half::scatter);
  const HostMatrix all = bias ? whole.y() : without_bias(whole.y(), whole.bias);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::size_t first = number(rank) * c.size, column = number(rank) * kIn;
    const HostMatrix y = cut_rows(all, first, c.size), own_x = cut_columns(whole.x, column, kIn);
    const HostMatrix alone =
        product(cut_rows(own_x, first, c.size), cut_columns(whole.weight, column, kIn), Transposed::b);
    std::vector<Reader::Explained> also = {
        {without_bias(y, whole.bias), "the bias is missing"},
        {without_bias(y, whole.bias, static_cast<float>(c.ranks) - 1), "every rank has added the bias"},
        {alone, "your own product and nothing else: what the other ranks have summed is not in it"},
        {plus(alone, whole.bias), "your own product and nothing else: what the other ranks have summed is not in it"}};
    for (int other = 0; other < c.ranks; ++other)
      if (other != rank)
        also.push_back({cut_rows(all, number(other) * c.size, c.size),
                        fmt::format("the rows of rank {}: the block that ends on rank r begins on rank r + 1", other)});
    for (const int begin : {0, 1}) {
      const HostMatrix sum = mixed_sum(whole, c, rank, begin);
      also.push_back({bias ? plus(sum, whole.bias) : sum,
                      "a sum of the products of different ranks' rows. In step k a rank multiplies the rows of rank r "
                      "− 1 − k, so that a sum is of the same rows on every rank that it passes"});
    }
    Reader reader(outcome.values[number(rank)], rank);
    reader.expect("y", y, also);
    reader.expect("x after the call", own_x);
    if (!reader.complaint().empty()) return reader.complaint();
  }
  return "";
}

std::string wrong_rows(Half half, const Case& c, const Outcome& outcome, bool bias) {
  return half == Half::gather ? wrong_column(c, outcome, bias) : wrong_row(c, outcome, bias);
}

void expect_serial(Half half) {
  for (const bool bias : {true, false}) {
    const auto judge = [=](const Case& c, const Outcome& outcome) { return wrong_rows(half, c, outcome, bias); };
    run_cases(ring_run(half, bias), judge, plan());
    if (::testing::Test::HasFailure()) return;
  }
  const auto judge = [=](const Case& c, const Outcome& outcome) { return wrong_rows(half, c, outcome, true); };
  run_cases(testing::in_reverse_order(ring_run(half)), testing::in_reverse_order(judge), plan());
}

TEST(Lab23_9a, IsTheSerialLayer) { expect_serial(Half::gather); }
TEST(Lab23_9b, IsTheSerialLayer) { expect_serial(Half::scatter); }

void expect_few_bytes(Half half) {
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    const std::uint64_t block = 4 * c.size * (half == Half::gather ? kIn : kOut);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::uint64_t sent = outcome.ledgers[number(rank)].traffic.bytes_sent;
      if (const std::uint64_t expected = (number(c.ranks) - 1) * block; sent != expected)
        return fmt::format("rank {} sent {} bytes, expected {}: p − 1 blocks of {}, as a ring without overlap", rank,
                           sent, expected, block);
    }
    return "";
  };
  run_cases(ring_run(half), judge, plan());
}
TEST(Lab23_9a, SendsWhatAGatherSends) { expect_few_bytes(Half::gather); }
TEST(Lab23_9b, SendsWhatAScatterSends) { expect_few_bytes(Half::scatter); }

void expect_little_memory(Half half, int blocks, const std::string& allowed) {
  const auto judge = [=](const Case& c, const Outcome& outcome) {
    if (c.ranks == 1) return std::string();  // where nothing arrives, a block more is a matter of taste
    const auto frugal = [&](Rank me) {
      const Arrays a(me, c, half, true);
      std::vector<Slice> held;
      for (int i = 0; i < blocks; ++i)
        held.push_back(me.allocate(c.size * (half == Half::gather ? kIn : kOut), DType::f32, Category::buffer));
    };
    return more_memory_than(
        outcome, [&](Rank me) { return frugal(me), Values{}; }, allowed);
  };
  run_cases(ring_run(half), judge, plan());
}
TEST(Lab23_9a, HoldsTwoBlocksMore) {
  expect_little_memory(Half::gather, 2, "one block is multiplied while another arrives, and none is kept");
}
TEST(Lab23_9b, HoldsThreeBlocksMore) {
  expect_little_memory(Half::scatter, 3, "one sum arrives, one is in flight, and one is being computed");
}

// Overlap of messages and arithmetic, in virtual time -----------------------------------------------------------------

constexpr std::size_t kRows = 64, kWidth = 64;  // N/p, and both sides of a rank's weight

/// Seconds of a call, all ranks beginning together.
CaseProgram timed_run(Half half) {
  return [=](Rank me, const Case&) {
    const std::size_t p = number(me.size()), block = kRows * kWidth;
    const bool gather = half == Half::gather;
    const LinearTensors values{unwritten(me, kWidth * kWidth), {}};
    const TensorParallel tp = make_tensor_parallel(me);
    const Slice x = unwritten(me, gather ? block : p * block), y = unwritten(me, gather ? p * block : block);
    const double began = me.now();
    (gather ? column_forward_ring : row_forward_ring)(tp, y, x, values, p * kRows, "ring");
    return Values{me.now() - began};
  };
}

/// On a machine where N/p rows are multiplied in `ratio` times their message's time: p − 1 of the longer ones of the
/// two, one product, and a twentieth.
void expect_overlap(Half half, double ratio) {
  constexpr double block = 4.0 * kRows * kWidth, message = 1e-7 + block * 1e-9;
  CasePlan timed = timed_plan(1, 1);
  timed.adjust = [=, adjust = timed.adjust](const Case& c, RunOptions& options) {
    adjust(c, options);
    options.machine.peak_flop_per_second.fill(2.0 * kRows * kWidth * kWidth / (ratio * message));
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    const double chunk = ratio * message, most = 1.05 * (chunk + (c.ranks - 1) * std::max(chunk, message));
    for (int rank = 0; rank < c.ranks; ++rank)
      if (const double seconds = outcome.values[number(rank)][0]; seconds > most)
        return fmt::format(
            "rank {}: {} products of {:.1f} µs and {} of {:.1f} µs took {:.1f} µs, expected at most {:.1f}. {}", rank,
            c.ranks, chunk * 1e6, messages(number(c.ranks) - 1), message * 1e6, seconds * 1e6, most * 1e6,
            half == Half::gather ? "Is a block of rows in flight while the one before it is multiplied?"
                                 : "Is a partial sum in flight while the next rows are multiplied?");
    return "";
  };
  run_cases(timed_run(half), judge, timed);
}
TEST(Lab23_9a, ProductsHideMessages) { expect_overlap(Half::gather, 2); }
TEST(Lab23_9a, MessagesHideProducts) { expect_overlap(Half::gather, 0.5); }
TEST(Lab23_9b, ProductsHideMessages) { expect_overlap(Half::scatter, 2); }
TEST(Lab23_9b, MessagesHideProducts) { expect_overlap(Half::scatter, 0.5); }

}  // namespace
}  // namespace lockstep::week23::overlapped_linear_test

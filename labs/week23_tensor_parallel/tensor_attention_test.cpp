// Tests of exercise 23.3: the results of the serial attention, and two sums.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

#include <gtest/gtest.h>

#include "common/gpt/model/block.hpp"
#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"

namespace lockstep::week23::tensor_attention_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;

constexpr std::size_t kHeadSize = 3;

AttentionShape shape_of(std::size_t heads) { return {2, 5, heads, kHeadSize}; }
constexpr std::size_t kRows = 10;

/// A case's size is the heads of a rank.
std::size_t all_heads(const Case& c) { return c.size * static_cast<std::size_t>(c.ranks); }
std::size_t channels(const Case& c) { return all_heads(c) * kHeadSize; }

struct Layer {
  HostMatrix qkv, qkv_bias, projection, projection_bias, x, dy;
  explicit Layer(const Case& c)
      : qkv(eighths(1, 3 * channels(c), channels(c))),
        qkv_bias(eighths(2, 1, 3 * channels(c))),
        projection(eighths(3, channels(c), channels(c))),
        projection_bias(eighths(4, 1, channels(c))),
        x(eighths(5, kRows, channels(c))),
        dy(numbers(6, kRows, channels(c))) {}
};

/// Rows [first, first + count) of each third: a rank's rows of q, k and v, one after the other.
HostMatrix own_rows(const HostMatrix& whole, std::size_t first, std::size_t count) {
  HostMatrix own{3 * count, whole.columns, {}};
  for (std::size_t third = 0; third < 3; ++third) {
    const HostMatrix part = cut_rows(whole, third * (whole.rows / 3) + first, count);
    own.values.insert(own.values.end(), part.values.begin(), part.values.end());
  }
  return own;
}

/// The passes of a run: both, the first alone, or neither, and only the two sums: memory that the passes may have.
enum class Passes { both, forward, sums };

testing::CaseProgram parallel_attention(bool overlap, Passes passes = Passes::both) {
  return [=](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, overlap);
    const Layer layer(c);
    const std::size_t own = c.size * kHeadSize, first = own * static_cast<std::size_t>(me.rank());
    const HostMatrix bias{3 * channels(c), 1, layer.qkv_bias.values};
    const auto parameter = [&](const HostMatrix& m) { return uploaded(me, m, Category::parameter); };
    const AttentionTensors values{
        {parameter(own_rows(layer.qkv, first, own)), parameter(own_rows(bias, first, own))},
        {parameter(cut_columns(layer.projection, first, own)), parameter(layer.projection_bias)}};
    const AttentionTensors gradients{{ones(me, values.qkv.weight), ones(me, values.qkv.bias)},
                                     {ones(me, values.projection.weight), ones(me, values.projection.bias)}};
    AttentionSaved saved{uploaded(me, layer.x), unwritten(me, kRows * 3 * own), unwritten(me, kRows * own),
                         unwritten(me, kRows * c.size)};
    Slice y = unwritten(me, kRows * channels(c)), dx = unwritten(me, y.size());
    Slice dattention = unwritten(me, kRows * own), dqkv = unwritten(me, kRows * 3 * own), dy = uploaded(me, layer.dy);
    if (passes == Passes::sums) {
      for (const Slice& sum : {y, dx}) week21::ring_all_reduce(me, sum);
      return Values{};
    }
    parallel_attention_forward(tp, shape_of(c.size), values, saved, y);
    if (passes == Passes::forward) return Values{};
    parallel_attention_backward(tp, shape_of(c.size), values, gradients, saved, dattention, dqkv, dx, dy);
    Values seen;
    for (const Slice& slice : {saved.qkv, saved.attention, saved.statistics, y, dx, gradients.projection.bias,
                               gradients.projection.weight, gradients.qkv.weight, gradients.qkv.bias, saved.input, dy})
      append(seen, to_host(me, slice));
    return seen;
  };
}

Values serial_attention(const Case& c) {
  const auto program = [&](Rank me) {
    const Layer layer(c);
    const AttentionShape shape = shape_of(all_heads(c));
    Slice w = uploaded(me, layer.qkv), b = uploaded(me, layer.qkv_bias), p = uploaded(me, layer.projection);
    Slice x = uploaded(me, layer.x), dy = uploaded(me, layer.dy), qkv = unwritten(me, 3 * x.size());
    Slice y = unwritten(me, x.size()), heads = unwritten(me, x.size()),
          statistics = unwritten(me, kRows * all_heads(c));
    Slice dheads = unwritten(me, x.size()), dqkv = unwritten(me, qkv.size()), dx = unwritten(me, x.size());
    Slice dw = ones(me, w), db = ones(me, b), dp = ones(me, p), dpb = ones(me, x.cut(0, channels(c)));
    linear(me, qkv, x, w, b, kRows);
    attention(me, heads, statistics, qkv, shape);
    linear(me, y, heads, p, uploaded(me, layer.projection_bias), kRows);
    linear_backward_weight(me, dp, dpb, dy, heads, kRows);
    linear_backward_input(me, dheads, dy, p, kRows);
    attention_backward(me, dqkv, dheads, heads, qkv, statistics, shape);
    linear_backward_weight(me, dw, db, dqkv, x, kRows);
    linear_backward_input(me, dx, dqkv, w, kRows);
    Values seen;
    for (const Slice& slice : {qkv, heads, statistics, y, dx, dpb, dp, dw, db, x, dy}) append(seen, to_host(me, slice));
    return seen;
  };
  return run({.ranks = 1}, Program(program)).check().values[0];
}

/// Rows of q, k and v that are cut by heads; where a rank's row lies is said here once more, not asked of the answer.
Part cut_by_heads(std::string name, const Case& c, std::size_t columns) {
  const std::size_t third = channels(c), own = c.size * kHeadSize;
  return {std::move(name), 3 * own * columns, 3 * third * columns, [=](std::size_t rank, std::size_t i) {
            const std::size_t row = i / columns;
            return (row / own * third + rank * own + row % own) * columns + i % columns;
          }};
}

/// For every position: q, k and v of a rank's heads.
Part positions_by_heads(std::string name, const Case& c) {
  const std::size_t third = channels(c), own = c.size * kHeadSize;
  return {std::move(name), kRows * 3 * own, kRows * 3 * third, [=](std::size_t rank, std::size_t i) {
            const std::size_t row = i / (3 * own), part = i % (3 * own) / own;
            return row * 3 * third + part * third + rank * own + i % own;
          }};
}
/// For every sequence: the statistics of a rank's heads.
Part statistics_by_heads(std::string name, const Case& c) {
  const AttentionShape shape = shape_of(all_heads(c));
  const std::size_t own = c.size * shape.positions, all = shape.heads * shape.positions;
  return {std::move(name), shape.batch * own, shape.batch * all,
          [=](std::size_t rank, std::size_t i) { return i / own * all + rank * own + i % own; }};
}

std::string wrong_attention(const Case& c, const Outcome& outcome) {
  const std::size_t width = channels(c);
  const std::vector<Part> parts = {positions_by_heads("saved.qkv", c),
                                   cut_by_columns("saved.attention", kRows, width, c.ranks),
                                   statistics_by_heads("saved.statistics", c),
                                   same_on_all("y", kRows * width),
                                   same_on_all("dx", kRows * width),
                                   same_on_all("the gradient of the projection's bias", width),
                                   cut_by_columns("the gradient of the projection's weight", width, width, c.ranks),
                                   cut_by_heads("the gradient of qkv's weight", c, width),
                                   cut_by_heads("the gradient of qkv's bias", c, 1),
                                   same_on_all("saved.input after both passes", kRows * width),
                                   same_on_all("dy after both passes", kRows * width)};
  // dx is behind qkv (a row of `width`), the gradient of the heads (as long), and its own sum (three times as long);
  // the attention between them sums over a sequence, forward and backward.
  return differs(outcome, parts, serial_attention(c), 5 * width + 4 * shape_of(c.size).positions);
}

CasePlan plan(bool queues = false) {
  CasePlan plan;
  plan.sizes = drawn_sizes({1, 2}, 3);
  plan.unit = "head per rank";
  plan.queues = queues;
  return plan;
}

TEST(Lab23_3, IsTheSerialAttention) { run_cases(parallel_attention(false), wrong_attention, plan()); }
TEST(Lab23_3, IsTheSerialAttentionWithOverlap) { run_cases(parallel_attention(true), wrong_attention, plan(true)); }

TEST(Lab23_3, OneSumForwardAndOneBackward) {
  run_cases(
      parallel_attention(false, Passes::forward),
      [](const Case& c, const Outcome& outcome) {
        return not_the_forward_sum(outcome, "attention forward", "attention backward", 4 * kRows * channels(c));
      },
      plan());
  run_cases(
      parallel_attention(false),
      [](const Case& c, const Outcome& outcome) {
        return not_two_sums(outcome, "attention forward", "attention backward", 4 * kRows * channels(c));
      },
      plan());
}

TEST(Lab23_3, NeedsNoMemoryButItsScratch) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const auto frugal = [&](Rank me) { return parallel_attention(false, Passes::sums)(me, c); };
    return more_memory_than(outcome, Program(frugal),
                            "the forward pass saves its results in AttentionSaved, and `dattention` and `dqkv` "
                            "are the scratch of the backward pass");
  };
  run_cases(parallel_attention(false), judge, plan());
}

/// Like 23.1d: the gradient of the weight of qkv hides the sum of dx.
TEST(Lab23_3, TheWeightsGradientHidesTheSum) {
  constexpr std::size_t batch = 4, positions = 32, rows = batch * positions, heads = 4, head = 32, own = heads * head,
                        channels = 128;
  const auto program = [](Rank me, const Case&) {
    const TensorParallel tp = make_tensor_parallel(me, true);
    const auto layer = [&](std::size_t in, std::size_t out) {
      return LinearTensors{unwritten(me, in * out), unwritten(me, out)};
    };
    const AttentionTensors values{layer(channels, 3 * own), layer(own, channels)},
        gradients{layer(channels, 3 * own), layer(own, channels)};
    AttentionSaved saved{unwritten(me, rows * channels), unwritten(me, rows * 3 * own), unwritten(me, rows * own),
                         unwritten(me, rows * heads)};
    Slice dattention = unwritten(me, rows * own), dqkv = unwritten(me, rows * 3 * own);
    Slice dx = unwritten(me, rows * channels), dy = unwritten(me, rows * channels);
    return exposed_by(me, [&] {
      parallel_attention_backward(tp, {batch, positions, heads, head}, values, gradients, saved, dattention, dqkv, dx,
                                  dy);
    });
  };
  const auto judge = [](const Case&, const Outcome& outcome) {
    return too_exposed(
        outcome, 0.5,
        "column_backward overlaps its all-reduce of dx with the gradient of qkv's weight: is that what the "
        "backward pass calls?");
  };
  run_cases(program, judge, timed_plan(2.0 * rows * channels * 3 * own, 4.0 * rows * channels));
}

}  // namespace
}  // namespace lockstep::week23::tensor_attention_test

// Tests of exercise 23.3: whole heads on each rank, the results of the serial attention, and two sums.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

#include <gtest/gtest.h>

#include "common/gpt/model/block.hpp"
#include "common/testing/cases.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"

namespace lockstep::week23::tensor_attention_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab23_3a, EveryRowBelongsToOneRankAndEveryHeadIsWhole) {
  for (const auto& [heads, head_size, ranks] :
       std::vector<std::array<int, 3>>{{1, 1, 1}, {2, 3, 1}, {2, 3, 2}, {4, 2, 2}, {6, 5, 3}, {8, 2, 8}}) {
    std::vector<int> owner(static_cast<std::size_t>(3 * heads * head_size), -1);
    for (int rank = 0; rank < ranks; ++rank)
      for (const RowRange& range :
           qkv_rows(static_cast<std::size_t>(heads), static_cast<std::size_t>(head_size), rank, ranks))
        for (std::size_t row = range.first; row < range.first + range.count; ++row) {
          ASSERT_LT(row, owner.size()) << "row " << row << " is beyond the 3C = " << owner.size() << " of the weight";
          ASSERT_EQ(owner[row], -1) << "row " << row << " is on rank " << owner[row] << " and on rank " << rank;
          owner[row] = rank;
        }
    for (std::size_t row = 0; row < owner.size(); ++row) {
      const auto third = static_cast<std::size_t>(heads * head_size);
      const int head = static_cast<int>(row % third) / head_size;
      ASSERT_EQ(owner[row], head / (heads / ranks))
          << "row " << row << " is row " << row % third % static_cast<std::size_t>(head_size) << " of head " << head
          << " in "
          << (row < third       ? "q"
              : row < 2 * third ? "k"
                                : "v")
          << ": of " << heads << " heads on " << ranks
          << " ranks, neighbouring ones belong together, and q, k and v of a head to one rank";
    }
  }
}

TEST(Lab23_3a, HeadsThatDoNotDivideAreRefused) {
  qkv_rows(4, 1, 0, 2);
  try {
    qkv_rows(6, 8, 0, 4);
    ADD_FAILURE() << "6 heads on 4 ranks were accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("6 heads") != text.npos && text.find("4 ranks") != text.npos) << text;
  }
}

// Part b --------------------------------------------------------------------------------------------------------------

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

/// A rank's rows of q, k and v, one after the other.
HostMatrix own_rows(const HostMatrix& whole, const std::array<RowRange, 3>& ranges) {
  HostMatrix own{0, whole.columns, {}};
  for (const RowRange& range : ranges) {
    const HostMatrix part = cut_rows(whole, range.first, range.count);
    own.values.insert(own.values.end(), part.values.begin(), part.values.end());
    own.rows += range.count;
  }
  return own;
}

testing::CaseProgram parallel_attention(bool overlap) {
  return [overlap](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, overlap);
    const Layer layer(c);
    const std::size_t own = c.size * kHeadSize, first = own * static_cast<std::size_t>(me.rank());
    const std::array<RowRange, 3> rows = qkv_rows(all_heads(c), kHeadSize, me.rank(), c.ranks);
    const HostMatrix bias{3 * channels(c), 1, layer.qkv_bias.values};
    const auto parameter = [&](const HostMatrix& m) { return uploaded(me, m, Category::parameter); };
    const AttentionTensors values{
        {parameter(own_rows(layer.qkv, rows)), parameter(own_rows(bias, rows))},
        {parameter(cut_columns(layer.projection, first, own)), parameter(layer.projection_bias)}};
    const AttentionTensors gradients{{zeros(me, values.qkv.weight), zeros(me, values.qkv.bias)},
                                     {zeros(me, values.projection.weight), zeros(me, values.projection.bias)}};
    AttentionSaved saved{uploaded(me, layer.x), unwritten(me, kRows * 3 * own), unwritten(me, kRows * own),
                         unwritten(me, kRows * c.size)};
    Slice y = unwritten(me, kRows * channels(c)), dx = unwritten(me, y.size());
    parallel_attention_forward(tp, shape_of(c.size), values, saved, y);
    parallel_attention_backward(tp, shape_of(c.size), values, gradients, saved, unwritten(me, kRows * own),
                                unwritten(me, kRows * 3 * own), dx, uploaded(me, layer.dy));
    Values seen;
    for (const Slice& slice :
         {y, dx, gradients.projection.bias, gradients.projection.weight, gradients.qkv.weight, gradients.qkv.bias})
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
    Slice dw = zeros(me, w), db = zeros(me, b), dp = zeros(me, p), dpb = zeros(me, x.cut(0, channels(c)));
    linear(me, qkv, x, w, b, kRows);
    attention(me, heads, statistics, qkv, shape);
    linear(me, y, heads, p, uploaded(me, layer.projection_bias), kRows);
    linear_backward_weight(me, dp, dpb, dy, heads, kRows);
    linear_backward_input(me, dheads, dy, p, kRows);
    attention_backward(me, dqkv, dheads, heads, qkv, statistics, shape);
    linear_backward_weight(me, dw, db, dqkv, x, kRows);
    linear_backward_input(me, dx, dqkv, w, kRows);
    Values seen;
    for (const Slice& slice : {y, dx, dpb, dp, dw, db}) append(seen, to_host(me, slice));
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

std::string wrong_attention(const Case& c, const Outcome& outcome) {
  const std::size_t width = channels(c);
  const std::vector<Part> parts = {same_on_all("y", kRows * width),
                                   same_on_all("dx", kRows * width),
                                   same_on_all("the gradient of the projection's bias", width),
                                   cut_by_columns("the gradient of the projection's weight", width, width, c.ranks),
                                   cut_by_heads("the gradient of qkv's weight", c, width),
                                   cut_by_heads("the gradient of qkv's bias", c, 1)};
  // dx is behind qkv (a row of `width`), the gradient of the heads (as long), and its own sum (three times as long);
  // the attention between them sums over a sequence, forward and backward.
  return differs(outcome, parts, serial_attention(c), 5 * width + 4 * shape_of(c.size).positions);
}

CasePlan plan(bool queues = false) {
  CasePlan plan;
  plan.sizes = sizes_of({1, 2});
  plan.unit = "head";
  plan.queues = queues;
  return plan;
}

TEST(Lab23_3b, IsTheSerialAttention) { run_cases(parallel_attention(false), wrong_attention, plan()); }
TEST(Lab23_3b, IsTheSerialAttentionWithOverlap) { run_cases(parallel_attention(true), wrong_attention, plan(true)); }

TEST(Lab23_3b, OneSumForwardAndOneBackward) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    return not_two_sums(outcome, "attention forward", "attention backward", 4 * kRows * channels(c));
  };
  run_cases(parallel_attention(false), judge, plan());
}

}  // namespace
}  // namespace lockstep::week23::tensor_attention_test

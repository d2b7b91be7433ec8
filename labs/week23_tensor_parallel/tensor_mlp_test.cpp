// Tests of exercise 23.2: the MLP of p ranks against the serial one, its two sums, and the memory of its activations.
// Part b: whole heads on each rank.
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

#include <gtest/gtest.h>

#include "common/gpt/model/block.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"

namespace lockstep::week23::tensor_mlp_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto qkv_rows = testing::answer<week23::qkv_rows>;

using testing::Case;
using testing::CasePlan;
using testing::run_cases;

constexpr std::size_t kRows = 3, kChannels = 5;

/// The hidden width: a case's size on each rank.
std::size_t hidden(const Case& c) { return c.size * static_cast<std::size_t>(c.ranks); }
HostMatrix up_weight(const Case& c) { return eighths(1, hidden(c), kChannels); }
HostMatrix up_bias(const Case& c) { return eighths(2, 1, hidden(c)); }
HostMatrix down_weight(const Case& c) { return eighths(3, kChannels, hidden(c)); }
HostMatrix down_bias() { return eighths(4, 1, kChannels); }
HostMatrix input() { return numbers(5, kRows, kChannels); }
HostMatrix output_gradient() { return numbers(6, kRows, kChannels); }

/// The passes of a run: both, the first alone, or neither, and only the two sums: memory that the passes may have.
enum class Passes { both, forward, sums };

testing::CaseProgram parallel_mlp(bool overlap, Passes passes = Passes::both) {
  return [=](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, overlap);
    const std::size_t own = c.size, first = own * static_cast<std::size_t>(me.rank());
    const auto parameter = [&](const HostMatrix& m) { return uploaded(me, m, Category::parameter); };
    const MlpTensors values{
        {parameter(cut_rows(up_weight(c), first, own)), parameter(cut_columns(up_bias(c), first, own))},
        {parameter(cut_columns(down_weight(c), first, own)), parameter(down_bias())}};
    const MlpTensors gradients{{ones(me, values.up.weight), ones(me, values.up.bias)},
                               {ones(me, values.down.weight), ones(me, values.down.bias)}};
    MlpSaved saved{uploaded(me, input()), unwritten(me, kRows * own), unwritten(me, kRows * own)};
    Slice y = unwritten(me, kRows * kChannels), dx = unwritten(me, kRows * kChannels);
    Slice wide = unwritten(me, kRows * own), dy = uploaded(me, output_gradient());
    if (passes == Passes::sums) {
      for (const Slice& sum : {y, dx}) week21::ring_all_reduce(me, sum);
      return Values{};
    }
    parallel_mlp_forward(tp, values, saved, y, kRows);
    if (passes == Passes::forward) return Values{};
    parallel_mlp_backward(tp, values, gradients, saved, wide, dx, dy, kRows);
    Values seen;
    for (const Slice& slice : {saved.up, saved.gelu, y, dx, gradients.down.bias, gradients.up.weight, gradients.up.bias,
                               gradients.down.weight, saved.input, dy})
      append(seen, to_host(me, slice));
    return seen;
  };
}

/// The same by the serial layers.
Values serial_mlp(const Case& c) {
  const auto program = [&](Rank me) {
    const std::size_t wide = kRows * hidden(c), narrow = kRows * kChannels;
    Slice w1 = uploaded(me, up_weight(c)), b1 = uploaded(me, up_bias(c)), w2 = uploaded(me, down_weight(c));
    Slice x = uploaded(me, input()), dy = uploaded(me, output_gradient()), up = unwritten(me, wide);
    Slice bent = unwritten(me, wide), y = unwritten(me, narrow), dx = unwritten(me, narrow), d = unwritten(me, wide);
    Slice dw1 = ones(me, w1), db1 = ones(me, b1), dw2 = ones(me, w2), db2 = ones(me, y.cut(0, kChannels));
    linear(me, up, x, w1, b1, kRows);
    gelu(me, bent, up);
    linear(me, y, bent, w2, uploaded(me, down_bias()), kRows);
    linear_backward_weight(me, dw2, db2, dy, bent, kRows);
    linear_backward_input(me, d, dy, w2, kRows);
    gelu_backward(me, d, d, up);
    linear_backward_weight(me, dw1, db1, d, x, kRows);
    linear_backward_input(me, dx, d, w1, kRows);
    Values seen;
    for (const Slice& slice : {up, bent, y, dx, db2, dw1, db1, dw2, x, dy}) append(seen, to_host(me, slice));
    return seen;
  };
  return run({.ranks = 1}, Program(program)).check().values[0];
}

std::string wrong_mlp(const Case& c, const Outcome& outcome) {
  const std::vector<Part> parts = {cut_by_columns("saved.up", kRows, hidden(c), c.ranks),
                                   cut_by_columns("saved.gelu", kRows, hidden(c), c.ranks),
                                   same_on_all("y", kRows * kChannels),
                                   same_on_all("dx", kRows * kChannels),
                                   same_on_all("the gradient of down's bias", kChannels),
                                   cut_by_rows("the gradient of up's weight", hidden(c), kChannels, c.ranks),
                                   cut_by_rows("the gradient of up's bias", hidden(c), 1, c.ranks),
                                   cut_by_columns("the gradient of down's weight", kChannels, hidden(c), c.ranks),
                                   same_on_all("saved.input after both passes", kRows * kChannels),
                                   same_on_all("dy after both passes", kRows * kChannels)};
  // Gradients were 1 before. dx is behind up (a row of kChannels), the gradient of the hidden units (as long), and its
  // own sum over all of these.
  return differs(outcome, parts, serial_mlp(c), 2 * kChannels + hidden(c));
}

CasePlan plan(bool queues = false) {
  CasePlan plan;
  plan.sizes = drawn_sizes({1, 4}, 5);
  plan.unit = "hidden unit per rank";
  plan.queues = queues;
  return plan;
}

TEST(Lab23_2a, IsTheSerialMlp) { run_cases(parallel_mlp(false), wrong_mlp, plan()); }
TEST(Lab23_2a, IsTheSerialMlpWithOverlap) { run_cases(parallel_mlp(true), wrong_mlp, plan(true)); }

TEST(Lab23_2a, OneSumForwardAndOneBackward) {
  run_cases(
      parallel_mlp(false, Passes::forward),
      [](const Case&, const Outcome& outcome) {
        return not_the_forward_sum(outcome, "mlp forward", "mlp backward", 4 * kRows * kChannels);
      },
      plan());
  run_cases(
      parallel_mlp(false),
      [](const Case&, const Outcome& outcome) {
        return not_two_sums(outcome, "mlp forward", "mlp backward", 4 * kRows * kChannels);
      },
      plan());
}

TEST(Lab23_2a, NeedsNoMemoryButItsScratch) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const auto frugal = [&](Rank me) { return parallel_mlp(false, Passes::sums)(me, c); };
    return more_memory_than(outcome, Program(frugal),
                            "the forward pass saves its results in MlpSaved, and `wide` is the scratch of the "
                            "backward pass, which gelu_backward may write over");
  };
  run_cases(parallel_mlp(false), judge, plan());
}

/// Like 23.1d: the gradient of up's weight hides the sum of dx.
TEST(Lab23_2a, TheWeightsGradientHidesTheSum) {
  constexpr std::size_t rows = 512, channels = 256, own = 256;
  const auto program = [](Rank me, const Case&) {
    const TensorParallel tp = make_tensor_parallel(me, true);
    const auto layer = [&](std::size_t in, std::size_t out) {
      return LinearTensors{unwritten(me, in * out), unwritten(me, out)};
    };
    const MlpTensors values{layer(channels, own), layer(own, channels)},
        gradients{layer(channels, own), layer(own, channels)};
    MlpSaved saved{unwritten(me, rows * channels), unwritten(me, rows * own), unwritten(me, rows * own)};
    Slice wide = unwritten(me, rows * own), dx = unwritten(me, rows * channels), dy = unwritten(me, rows * channels);
    return exposed_by(me, [&] { parallel_mlp_backward(tp, values, gradients, saved, wide, dx, dy, rows); });
  };
  const auto judge = [](const Case&, const Outcome& outcome) {
    return too_exposed(
        outcome, 0.5,
        "column_backward overlaps its all-reduce of dx with the gradient of up's weight: is that what the "
        "backward pass calls?");
  };
  run_cases(program, judge, timed_plan(2.0 * rows * channels * own, 4.0 * rows * channels));
}

// Part b --------------------------------------------------------------------------------------------------------------

struct Heads {
  std::size_t heads, head_size;
  int ranks;
};

/// Describes the mistake in a rank's rows; "" when they are its heads' q, k and v, in this order.
std::string wrong_rows(const Heads& all, int rank) {
  const std::array<RowRange, 3> rows = qkv_rows(all.heads, all.head_size, rank, all.ranks);
  const std::size_t third = all.heads * all.head_size, own = third / static_cast<std::size_t>(all.ranks);
  constexpr std::array<const char*, 3> names = {"q", "k", "v"};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t first = i * third + static_cast<std::size_t>(rank) * own;
    if (rows[i].first == first && rows[i].count == own) continue;
    return fmt::format(
        "of {} head{} with {} row{} each on {} rank{}, rank {} has [{}, {}) for its rows of {}, expected [{}, {}): "
        "{}",
        all.heads, all.heads == 1 ? "" : "s", all.head_size, all.head_size == 1 ? "" : "s", all.ranks,
        all.ranks == 1 ? "" : "s", rank, rows[i].first, rows[i].first + rows[i].count, names[i], first, first + own,
        rows[i].first == first && rows[i].count == first + own
            ? "a RowRange is {first, count}, not {first, end}"
            : "neighbouring heads belong together, and of 3C rows the first C are those of q, then k, then v");
  }
  return "";
}

TEST(Lab23_2b, EveryRowBelongsToOneRankAndEveryHeadIsWhole) {
  for (const Heads& all : {Heads{1, 1, 1}, {2, 3, 1}, {2, 3, 2}, {4, 2, 2}, {6, 5, 3}, {8, 2, 8}, {12, 4, 4}})
    for (int rank = 0; rank < all.ranks; ++rank)
      if (std::string wrong = wrong_rows(all, rank); !wrong.empty()) FAIL() << wrong;
}

TEST(Lab23_2b, HeadsThatDoNotDivideAreRefused) {
  qkv_rows(4, 1, 0, 2);
  for (const Heads& all : {Heads{6, 8, 4}, {2, 4, 8}}) try {
      qkv_rows(all.heads, all.head_size, 0, all.ranks);
      ADD_FAILURE() << all.heads << " heads on " << all.ranks << " ranks were accepted: they do not divide";
    } catch (const Error& error) {
      const std::string text = error.what();
      for (const std::string& named : {fmt::format("{} heads", all.heads), fmt::format("{} ranks", all.ranks)})
        if (text.find(named) == text.npos)
          FAIL() << "the refusal does not name \"" << named << "\". It says: " << text.substr(text.find("): ") + 3);
      if (error.verdict() != Verdict::usage) FAIL() << "the refusal is not a USAGE error";
    }
}

}  // namespace
}  // namespace lockstep::week23::tensor_mlp_test

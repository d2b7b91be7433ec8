// Tests of exercise 23.1: forward and every gradient equal the serial layer's, exactly; and nothing is sent but what f
// and g sum.
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"

namespace lockstep::week23::parallel_linear_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto column_part = testing::answer<week23::column_part>;
constexpr auto row_part = testing::answer<week23::row_part>;

using testing::Case;
using testing::CasePlan;
using testing::run_cases;

constexpr std::size_t kRows = 3;

/// A case's size is the features of a rank where the layer is cut; the other side is not cut, and odd.
std::size_t cut_features(const Case& c) { return c.size * static_cast<std::size_t>(c.ranks); }
std::size_t other_features(const Case& c) { return 2 * c.size + 1; }
SerialLinear column_layer(const Case& c) { return {kRows, other_features(c), cut_features(c)}; }
SerialLinear row_layer(const Case& c) { return {kRows, cut_features(c), other_features(c)}; }

CasePlan plan(bool queues = false) {
  CasePlan plan;
  plan.sizes = drawn_sizes({1, 2, 5}, 6);
  plan.unit = "feature per rank";
  plan.queues = queues;
  return plan;
}

/// A layer has a bias, or none.
LinearTensors tensors(Rank me, const HostMatrix& weight, const HostMatrix& bias) {
  LinearTensors made{uploaded(me, weight, Category::parameter), {}};
  if (!bias.values.empty()) made.bias = uploaded(me, bias, Category::parameter);
  return made;
}
LinearTensors layer_of_ones(Rank me, const LinearTensors& like) {
  LinearTensors gradients{ones(me, like.weight), {}};
  if (like.bias.size() > 0) gradients.bias = ones(me, like.bias);
  return gradients;
}
const HostMatrix kNoBias{1, 0, {}};

/// Of the gradient of a rank's own weights, which held 1 everywhere before; `sum` is that of all ranks' gradients.
std::vector<Reader::Explained> wrong_gradients(const HostMatrix& exact, const HostMatrix& sum, int ranks) {
  return {{exact, "gradients accumulate: what was there before is lost"},
          {HostMatrix{exact.rows, exact.columns, std::vector<float>(exact.values.size(), 1)},
           "it is what it was before: is linear_backward_weight called?"},
          {plus(sum, {1, 1, {static_cast<float>(ranks)}}),
           "the sum over the ranks, which hold different weights: only dx is summed"}};
}

HostMatrix sum_of_rows(const HostMatrix& whole, int ranks) {
  const std::size_t own = whole.rows / static_cast<std::size_t>(ranks);
  HostMatrix sum = cut_rows(whole, 0, own);
  for (std::size_t first = own; first < whole.rows; first += own) sum = plus(sum, cut_rows(whole, first, own));
  return sum;
}

constexpr const char* kMean = "the mean over the ranks: each has a part of the sum, so nothing is divided";
HostMatrix mean(HostMatrix sum, int ranks) {
  for (float& value : sum.values) value *= 1.0f / static_cast<float>(ranks);
  return sum;
}

// Part a --------------------------------------------------------------------------------------------------------------

Values sums(Rank me, const Case& c) {
  const TensorParallel tp = make_tensor_parallel(me, /*overlap=*/false);
  Values seen;
  for (int which : {0, 1}) {
    Slice data = uploaded(me, numbers(10 * which + me.rank(), 1, c.size));
    bool finished = true;
    if (which == 0) {
      g_forward(tp, data, "g");
    } else {
      const Ticket ticket = f_backward(tp, data, "f");
      finished = ticket.kind == Ticket::Kind::none;
      me.wait(ticket);
    }
    append(seen, to_host(me, data));
    seen.push_back(finished ? 0 : 1);
  }
  return seen;
}

TEST(Lab23_1a, FAndGAreSumsOverTheGroup) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    std::vector<HostMatrix> sum(2, HostMatrix{1, c.size, std::vector<float>(c.size)});
    for (int which : {0, 1})
      for (int rank = 0; rank < c.ranks; ++rank) sum[which] = plus(sum[which], numbers(10 * which + rank, 1, c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      Reader reader(outcome.values[rank], rank);
      reader.expect(
          "g's output", sum[0],
          {{numbers(rank, 1, c.size), "this rank's own part: nothing was summed"}, {mean(sum[0], c.ranks), kMean}});
      reader.expect("", {1, 1, {0}});
      reader.expect("f's gradient", sum[1],
                    {{numbers(10 + rank, 1, c.size), "this rank's own part: nothing was summed"},
                     {mean(sum[1], c.ranks), kMean}});
      if (!reader.complaint().empty()) return reader.complaint();
      if (outcome.values[rank].back() != 0)
        return fmt::format("rank {}: without overlap f's sum is over when f_backward returns, and its ticket empty",
                           rank);
    }
    for (const char* place : {"g", "f"})
      if (std::string wrong = wrong_sums(outcome, place, 1, 4 * c.size); !wrong.empty()) return wrong;
    return more_than_sums(outcome, 2 * 4 * c.size);
  };
  run_cases(sums, judge, plan());
}

// Part b --------------------------------------------------------------------------------------------------------------

/// y, dx, dW and db of this rank; only y where there is no backward pass.
testing::CaseProgram column(bool overlap, bool backward, bool bias = true) {
  return [=](Rank me, const Case& c) {
    const SerialLinear layer = column_layer(c);
    const std::size_t own = c.size, first = own * static_cast<std::size_t>(me.rank());
    const TensorParallel tp = make_tensor_parallel(me, overlap);
    const LinearTensors values =
        tensors(me, cut_rows(layer.weight, first, own), bias ? cut_columns(layer.bias, first, own) : kNoBias);
    Slice x = uploaded(me, layer.x), y = me.allocate(kRows * own, DType::f32, Category::activation);
    column_forward(tp, y, x, values, kRows);
    Values seen;
    append(seen, to_host(me, y));
    if (!backward) return seen;
    const LinearTensors gradients = layer_of_ones(me, values);
    Slice dx = me.allocate(x.size(), DType::f32, Category::activation);
    column_backward(tp, dx, gradients, uploaded(me, cut_columns(layer.dy, first, own)), x, values, kRows, "dx");
    for (const Slice& slice : {dx, gradients.weight}) append(seen, to_host(me, slice));
    if (bias) append(seen, to_host(me, gradients.bias));
    return seen;
  };
}

std::string wrong_column(const Case& c, const Outcome& outcome, bool bias = true) {
  SerialLinear layer = column_layer(c);
  if (!bias) std::fill(layer.bias.values.begin(), layer.bias.values.end(), 0.0f);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::size_t own = c.size, first = own * static_cast<std::size_t>(rank);
    const HostMatrix y = layer.y(), dx = layer.dx();
    const HostMatrix partial =
        product(cut_columns(layer.dy, first, own), cut_rows(layer.weight, first, own), Transposed::none);
    const HostMatrix dweight = cut_rows(layer.dweight(), first, own), dbias = cut_columns(layer.dbias(), first, own);
    Reader reader(outcome.values[rank], rank);
    reader.expect("its columns of y", cut_columns(y, first, own),
                  {{sum_of_columns(y, c.ranks), "the sum over the ranks: y stays sharded, and nothing is sent"}});
    reader.expect("dx", dx, {{partial, "this rank's part alone: f's backward is missing"}});
    reader.expect("dW", plus_one(dweight), wrong_gradients(dweight, sum_of_rows(layer.dweight(), c.ranks), c.ranks));
    if (bias) reader.expect("dbias", plus_one(dbias), {{dbias, "gradients accumulate: what was there before is lost"}});
    if (!reader.complaint().empty()) return reader.complaint();
  }
  const std::uint64_t bytes = 4 * kRows * other_features(c);
  if (std::string wrong = wrong_sums(outcome, "dx", 1, bytes); !wrong.empty()) return wrong;
  return more_than_sums(outcome, bytes);
}
std::string wrong_column_with_bias(const Case& c, const Outcome& outcome) { return wrong_column(c, outcome); }
std::string wrong_column_without(const Case& c, const Outcome& outcome) { return wrong_column(c, outcome, false); }

TEST(Lab23_1b, ForwardAndGradientsAreTheSerialLayers) {
  run_cases(column(false, true), wrong_column_with_bias, plan());
}
TEST(Lab23_1b, ABiasMayBeEmpty) { run_cases(column(false, true, /*bias=*/false), wrong_column_without, plan()); }

TEST(Lab23_1b, ForwardSendsNothing) {
  run_cases(
      column(false, false),
      [](const Case&, const Outcome& outcome) {
        return wrong_traffic(outcome, "a column-parallel layer has all it needs, and its y stays sharded");
      },
      plan());
}

// Part c --------------------------------------------------------------------------------------------------------------

template <bool kBias>
Values row(Rank me, const Case& c) {
  const SerialLinear layer = row_layer(c);
  const std::size_t own = c.size, first = own * static_cast<std::size_t>(me.rank());
  const TensorParallel tp = make_tensor_parallel(me, false);
  const LinearTensors values = tensors(me, cut_columns(layer.weight, first, own), kBias ? layer.bias : kNoBias);
  const LinearTensors gradients = layer_of_ones(me, values);
  Slice x = uploaded(me, cut_columns(layer.x, first, own)), dy = uploaded(me, layer.dy);
  Slice y = me.allocate(dy.size(), DType::f32, Category::activation);
  Slice dx = me.allocate(x.size(), DType::f32, Category::activation);
  row_forward(tp, y, x, values, kRows, "y");
  const double sent = static_cast<double>(ledger_of(me).traffic.messages_sent);
  row_backward(tp, dx, gradients, dy, x, values, kRows);
  Values seen;
  for (const Slice& slice : {y, dx, gradients.weight}) append(seen, to_host(me, slice));
  if (kBias) append(seen, to_host(me, gradients.bias));
  seen.push_back(static_cast<double>(ledger_of(me).traffic.messages_sent) - sent);
  return seen;
}

template <bool kBias>
std::string wrong_row(const Case& c, const Outcome& outcome) {
  SerialLinear layer = row_layer(c);
  if (!kBias) std::fill(layer.bias.values.begin(), layer.bias.values.end(), 0.0f);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::size_t own = c.size, first = own * static_cast<std::size_t>(rank);
    const HostMatrix y = layer.y();
    const HostMatrix partial =
        product(cut_columns(layer.x, first, own), cut_columns(layer.weight, first, own), Transposed::b);
    const HostMatrix dweight = cut_columns(layer.dweight(), first, own);
    Reader reader(outcome.values[rank], rank);
    reader.expect("y", y,
                  {{plus(y, layer.bias, static_cast<float>(c.ranks) - 1),
                    fmt::format("the sum holds the bias {} times: every rank added it", c.ranks)},
                   {plus(y, layer.bias, -1), "the bias is missing"},
                   {partial, "this rank's part alone: g is missing"},
                   {plus(partial, layer.bias), "this rank's part alone: g is missing"}});
    reader.expect("its columns of dx", cut_columns(layer.dx(), first, own),
                  {{sum_of_columns(layer.dx(), c.ranks),
                    "the sum over the ranks: each has the columns of its own inputs, so g's backward sums nothing"}});
    reader.expect("dW", plus_one(dweight), wrong_gradients(dweight, sum_of_columns(layer.dweight(), c.ranks), c.ranks));
    if (kBias)
      reader.expect("dbias", plus_one(layer.dbias()),
                    {{HostMatrix{1, layer.dbias().columns, std::vector<float>(layer.dbias().columns, 1)},
                      "it was not computed: every rank has the whole bias, and its gradient"},
                     {plus(plus_one(layer.dbias()), plus_one(layer.dbias()), static_cast<float>(c.ranks) - 1),
                      "the sum over the ranks, which all have the whole gradient: nothing is left to sum"}});
    if (!reader.complaint().empty()) return reader.complaint();
    if (outcome.values[rank].back() != 0)
      return fmt::format("rank {} sent {} in the backward pass: g's backward is the identity", rank,
                         messages(static_cast<std::uint64_t>(outcome.values[rank].back())));
  }
  const std::uint64_t bytes = 4 * kRows * other_features(c);
  if (std::string wrong = wrong_sums(outcome, "y", 1, bytes); !wrong.empty()) return wrong;
  return more_than_sums(outcome, bytes);
}

TEST(Lab23_1c, ForwardAndGradientsAreTheSerialLayers) { run_cases(row<true>, wrong_row<true>, plan()); }
TEST(Lab23_1c, ABiasMayBeEmpty) { run_cases(row<false>, wrong_row<false>, plan()); }

/// Column, then row: what two layers of an MLP are. The first leaves what the second needs, and one sum is all there
/// is.
TEST(Lab23_1c, NothingIsSentBetweenColumnAndRow) {
  const auto program = [](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, false);
    const std::size_t own = c.size, first = own * static_cast<std::size_t>(me.rank()), width = other_features(c);
    const SerialLinear up = column_layer(c), down(kRows, cut_features(c), width);
    Slice x = uploaded(me, up.x), middle = me.allocate(kRows * own, DType::f32, Category::activation);
    Slice y = me.allocate(kRows * width, DType::f32, Category::activation);
    column_forward(tp, middle, x, tensors(me, cut_rows(up.weight, first, own), cut_columns(up.bias, first, own)),
                   kRows);
    const double between = static_cast<double>(ledger_of(me).traffic.messages_sent);
    row_forward(tp, y, middle, tensors(me, cut_columns(down.weight, first, own), down.bias), kRows, "y");
    Values seen{between};
    append(seen, to_host(me, y));
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    SerialLinear up = column_layer(c), down(kRows, cut_features(c), other_features(c));
    down.x = up.y();
    for (int rank = 0; rank < c.ranks; ++rank) {
      if (outcome.values[rank][0] != 0)
        return fmt::format(
            "rank {} sent messages before the row-parallel layer: column_forward, your part b, sends "
            "nothing",
            rank);
      const Values y(outcome.values[rank].begin() + 1, outcome.values[rank].end());
      Reader reader(y, rank);
      if (!reader.expect("y", down.y()).complaint().empty()) return reader.complaint();
    }
    return "";
  };
  run_cases(program, judge, plan());
}

// Part d --------------------------------------------------------------------------------------------------------------

TEST(Lab23_1d, GradientsAreTheSameWithOverlap) { run_cases(column(true, true), wrong_column_with_bias, plan(true)); }

/// The weight's gradient takes as long as the sum of dx: what main still waits for must be less than half of it.
TEST(Lab23_1d, TheWeightsGradientHidesTheSum) {
  constexpr std::size_t rows = 512, in = 256, own = 256;
  const auto program = [](Rank me, const Case&) {
    const TensorParallel tp = make_tensor_parallel(me, true);
    auto activation = [&](std::size_t n) { return me.allocate(n, DType::f32, Category::activation); };
    const LinearTensors values{activation(own * in), {}}, gradients{activation(own * in), {}};
    Slice dx = activation(rows * in), dy = activation(rows * own), x = activation(rows * in);
    return exposed_by(me, [&] { column_backward(tp, dx, gradients, dy, x, values, rows, "dx"); });
  };
  const auto judge = [](const Case&, const Outcome& outcome) {
    return too_exposed(outcome, 0.5,
                       "Does the sum of dx begin before the weight's gradient, on tp.comm, and does main wait for it "
                       "after that?");
  };
  run_cases(program, judge, timed_plan(2.0 * rows * in * own, 4.0 * rows * in));
}

// Part e --------------------------------------------------------------------------------------------------------------

struct WholeLayer {
  std::size_t out, in;
};

/// The fault of one range of a rank's part; `cut` says that it is this rank's of p equal parts, else it is whole.
std::string wrong_range(const char* what, ChunkRange seen, std::size_t features, bool cut, int rank, int ranks) {
  const std::size_t own = cut ? features / static_cast<std::size_t>(ranks) : features;
  const std::size_t first = cut ? own * static_cast<std::size_t>(rank) : 0;
  if (seen.offset == first && seen.size == own) return "";
  std::string text =
      fmt::format("{} [{}, {}), expected [{}, {}): ", what, seen.offset, seen.offset + seen.size, first, first + own);
  if (seen.offset == first && seen.size == first + own)
    return text + "a ChunkRange is {offset, size}, not {first, end}";
  if (!cut) return text + "these are not sharded, every rank has all of them";
  if (seen.size == features) return text + "these are sharded over the ranks";
  return text + "rank r has the r-th of p equal parts";
}

std::string wrong_part(bool column, WholeLayer layer, int rank, int ranks) {
  const std::string asked = fmt::format("a {}-parallel layer, W {} × {}, on {} rank{}", column ? "column" : "row",
                                        layer.out, layer.in, ranks, ranks == 1 ? "" : "s");
  LayerPart part;
  try {
    part = (column ? column_part : row_part)(layer.out, layer.in, rank, ranks);
  } catch (const Error& error) {
    if (error.verdict() != Verdict::usage) throw;
    std::string where = error.what();
    where.erase(0, where.find("at "));
    return fmt::format("{}, is refused, though its {} features ({}) divide. {} It was refused {}", asked,
                       column ? "output" : "input", column ? layer.out : layer.in,
                       column ? "Only the rows of W and the bias are sharded."
                              : "Only the columns of W are sharded, and each rank has the whole bias.",
                       where);
  }
  std::string wrong = wrong_range("rows of W", part.rows, layer.out, column, rank, ranks);
  if (wrong.empty()) wrong = wrong_range("columns of W", part.columns, layer.in, !column, rank, ranks);
  if (wrong.empty()) wrong = wrong_range("elements of the bias", part.bias, layer.out, column, rank, ranks);
  if (wrong.empty()) return "";
  return fmt::format("{}: rank {} has the {}", asked, rank, wrong);
}

TEST(Lab23_1e, ARankHasItsPartOfEachTensor) {
  for (int ranks : {1, 2, 3, 4, 8})
    for (std::size_t own : {1, 2, 5})
      for (std::size_t other : {1, 3, 7, 8})
        for (bool column : {true, false})
          for (int rank = 0; rank < ranks; ++rank) {
            const std::size_t whole = own * static_cast<std::size_t>(ranks);
            const WholeLayer layer = column ? WholeLayer{whole, other} : WholeLayer{other, whole};
            if (std::string wrong = wrong_part(column, layer, rank, ranks); !wrong.empty()) FAIL() << wrong;
          }
}

std::string accepts_uneven(bool column, WholeLayer layer, int rank, int ranks) {
  const std::size_t features = column ? layer.out : layer.in;
  const std::string asked =
      fmt::format("a {}-parallel layer, W {} × {} on {} ranks", column ? "column" : "row", layer.out, layer.in, ranks);
  try {
    (column ? column_part : row_part)(layer.out, layer.in, rank, ranks);
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.verdict() != Verdict::usage) return asked + ": the refusal is not a USAGE error";
    for (const std::string& number : {std::to_string(features), std::to_string(ranks)})
      if (text.find(number) == text.npos) return asked + ": the refusal does not name " + number;
    return "";
  }
  return fmt::format("{}: rank {} was given a part, but {} {} features do not divide", asked, rank, features,
                     column ? "output" : "input");
}

TEST(Lab23_1e, FeaturesThatDoNotDivideAreRefused) {
  column_part(4, 3, 0, 2);
  row_part(3, 4, 0, 2);
  for (const auto& [features, ranks] : {std::pair<std::size_t, int>{7, 2}, {10, 4}, {3, 8}})
    for (bool column : {true, false})
      for (int rank : {0, ranks - 1}) {
        const auto even = static_cast<std::size_t>(ranks);
        const WholeLayer layer = column ? WholeLayer{features, even} : WholeLayer{even, features};
        if (std::string wrong = accepts_uneven(column, layer, rank, ranks); !wrong.empty()) FAIL() << wrong;
      }
}

}  // namespace
}  // namespace lockstep::week23::parallel_linear_test

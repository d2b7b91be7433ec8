// Tests of exercise 23.5b: linear layers between cut rows against the serial ones, where they gather and scatter, their
// scratch, and the gather that arithmetic hides.
#include <gtest/gtest.h>

#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"

namespace lockstep::week23::sequence_layers_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

/// A place where rows are gathered or scattered, in the layers below: each in a region of the whole array's bytes.
struct Place {
  const char* name;
  std::uint64_t bytes;
};
std::vector<Place> places_of(const Case& c) {
  const std::uint64_t whole = 4 * 2 * static_cast<std::uint64_t>(c.ranks) * 3;
  return {{"a", whole}, {"b", whole}, {"c", whole}, {"d", whole}, {"e", whole}};
}

/// One layer after the other, in both directions, against the serial ones.
void run_layers(bool overlap) {
  const auto program = [overlap](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, overlap);
    const auto p = static_cast<std::size_t>(c.ranks), r = static_cast<std::size_t>(me.rank());
    const std::size_t rows = 2 * p, own = c.size, in = 3;
    const SerialLinear up(rows, in, own * p), down(rows, own * p, in);
    const LinearTensors column{uploaded(me, cut_rows(up.weight, r * own, own)),
                               uploaded(me, cut_columns(up.bias, r * own, own))};
    const LinearTensors row{uploaded(me, cut_columns(down.weight, r * own, own)), uploaded(me, down.bias)};
    const LinearTensors dcolumn{ones(me, column.weight), ones(me, column.bias)};
    const LinearTensors drow{ones(me, row.weight), ones(me, row.bias)};
    Slice x = uploaded(me, cut_rows(up.x, 2 * r, 2)), middle = unwritten(me, rows * own), y = unwritten(me, 2 * in);
    column_forward_rows(tp, middle, x, column, rows, "a");
    row_forward_rows(tp, y, middle, row, rows, "b");
    Slice dmiddle = unwritten(me, rows * own), dx = unwritten(me, 2 * in);
    row_backward_rows(tp, dmiddle, drow, uploaded(me, cut_rows(down.dy, 2 * r, 2)), middle, row, rows, "c");
    column_backward_rows(tp, dx, dcolumn, dmiddle, x, column, rows, "d", "e");
    Values seen;
    for (const Slice& slice : {y, dx, drow.bias, drow.weight, dcolumn.weight, dcolumn.bias})
      append(seen, to_host(me, slice));
    seen.push_back(tp.comm.queue());
    return seen;
  };
  const auto judge = [overlap](const Case& c, const Outcome& outcome) -> std::string {
    const auto p = static_cast<std::size_t>(c.ranks);
    const std::size_t rows = 2 * p, own = c.size, in = 3;
    SerialLinear up(rows, in, own * p), down(rows, own * p, in);
    down.x = up.y();
    up.dy = down.dx();
    for (std::size_t r = 0; r < p; ++r) {
      Reader reader(outcome.values[r], static_cast<int>(r));
      const HostMatrix y = cut_rows(down.y(), 2 * r, 2);
      reader.expect("its rows of y", y,
                    {{plus(y, down.bias, static_cast<float>(c.ranks) - 1), "every rank added the bias"},
                     {plus(y, down.bias, -1), "the bias is missing"}});
      reader.expect("its rows of dx", cut_rows(up.dx(), 2 * r, 2));
      reader.expect("the gradient of the row-parallel bias", plus_one(down.dbias()));
      reader.expect("the gradient of its columns of the row-parallel weight",
                    plus_one(cut_columns(down.dweight(), r * own, own)));
      reader.expect("the gradient of its rows of the column-parallel weight",
                    plus_one(cut_rows(up.dweight(), r * own, own)));
      reader.expect("the gradient of its part of the column-parallel bias",
                    plus_one(cut_columns(up.dbias(), r * own, own)));
      if (!reader.complaint().empty()) return reader.complaint();
      for (const RegionTotal& region : outcome.ledgers[r].regions)
        if (overlap && region.name == "d" && region.queue != static_cast<int>(outcome.values[r].back()))
          return fmt::format(
              "rank {}: the region named `gather` is on another queue than tp.comm, where x is gathered "
              "with tp.overlap. Are `gather` and `scatter` swapped?",
              r);
    }
    for (const Place& place : places_of(c))
      if (std::string wrong = wrong_sums(outcome, place.name, 1, place.bytes); !wrong.empty()) return wrong;
    return "";
  };
  CasePlan plan;
  plan.sizes = drawn_sizes({1, 4}, 5);
  plan.unit = "feature per rank";
  plan.queues = overlap;
  run_cases(program, judge, plan);
}
TEST(Lab23_5b, LayersBetweenCutRows) { run_layers(false); }
TEST(Lab23_5b, LayersBetweenCutRowsWithOverlap) { run_layers(true); }

/// The memory of a layer: `frugal` holds whole rows of so many arrays, and sums one of them.
void run_scratch(bool column) {
  constexpr std::size_t in = 3;
  const auto program = [column](bool frugal) {
    return testing::CaseProgram([=](Rank me, const Case& c) {
      const TensorParallel tp = make_tensor_parallel(me, false);
      const auto p = static_cast<std::size_t>(c.ranks);
      const std::size_t rows = 2 * p, own = c.size;
      const LinearTensors values{zeros(me, unwritten(me, own * in)), {}}, gradients{zeros(me, values.weight), {}};
      Slice wide = zeros(me, unwritten(me, rows * own)), narrow = zeros(me, unwritten(me, 2 * in)),
            result = zeros(me, narrow);
      const std::uint64_t before = live_bytes(me);
      if (frugal) {
        Slice whole = whole_rows(tp, narrow), other = column ? whole_rows(tp, narrow) : Slice();
        week21::ring_reduce_scatter(me, whole);
      } else if (column) {
        column_backward_rows(tp, result, gradients, wide, narrow, values, rows, "gather", "scatter");
      } else {
        row_forward_rows(tp, result, wide, values, rows, "scatter");
      }
      return Values{static_cast<double>(live_bytes(me) - before)};
    });
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      if (outcome.values[rank][0] != 0)
        return fmt::format("rank {} still holds {} bytes of scratch after the call: it must be freed inside", rank,
                           outcome.values[rank][0]);
    const auto frugal = [&](Rank me) { return program(true)(me, c); };
    return more_memory_than(outcome, Program(frugal),
                            column ? "scratch is whole rows of x, and of dx" : "scratch is whole rows of y");
  };
  CasePlan plan;
  plan.sizes = sizes_of({4});
  plan.unit = "feature per rank";
  run_cases(program(false), judge, plan);
}
TEST(Lab23_5b, ScratchOfTheColumnParallelLayer) { run_scratch(true); }
TEST(Lab23_5b, ScratchOfTheRowParallelLayer) { run_scratch(false); }

/// This rank's part of dx takes as long as the gathering of x. The scatter, as long again, hides behind nothing.
TEST(Lab23_5b, ThePartOfDxHidesTheGatherOfX) {
  constexpr std::size_t rows = 512, in = 256, own = 256;
  const auto program = [](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, true);
    const LinearTensors values{unwritten(me, own * in), {}}, gradients{unwritten(me, own * in), {}};
    Slice x = unwritten(me, rows / static_cast<std::size_t>(c.ranks) * in), dx = unwritten(me, x.size());
    Slice dy = unwritten(me, rows * own);
    return exposed_by(me, [&] { column_backward_rows(tp, dx, gradients, dy, x, values, rows, "gather", "scatter"); });
  };
  const auto judge = [](const Case&, const Outcome& outcome) {
    return too_exposed(
        outcome, 0.75,
        "Half of it is the scatter of dx. Is x gathered on tp.comm, and does main wait for it only after "
        "its part of dx?");
  };
  run_cases(program, judge, timed_plan(2 * 2.0 * rows * in * own, 4.0 * rows * in));
}

}  // namespace
}  // namespace lockstep::week23::sequence_layers_test

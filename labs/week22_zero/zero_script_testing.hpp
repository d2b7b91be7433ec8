// For the tests of 22.3 and 22.4: the scripted model in pieces, its units, and what its memory and traffic must be.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "common/arithmetic.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/scripted_model.hpp"
#include "labs/week22_zero/usage_order.hpp"

namespace lockstep::week22 {

using testing::Case;

/// `tensors` tensors of 1 to 13 elements, as of the scripted model; values begin as their place in the flat slice plus
/// one.
inline std::vector<Parameter> scripted_table(std::size_t tensors) {
  std::vector<Parameter> table;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    const std::size_t size = 1 + (i * 7 + 3) % 13;
    table.push_back({"layer" + std::to_string(i), offset, size, 1, size});
    offset += size;
  }
  return table;
}

/// Numbers of tensors to try; with --seed the last is drawn.
inline std::vector<std::size_t> scripted_sizes() { return {1, 2, 5, 12 + testing::drawn({22, 5}, 6)}; }

/// Its values, without memory for gradients. Those of rank r are 1000 r larger, until somebody broadcasts.
inline Parameters scripted_values(Rank me, const std::vector<Parameter>& table) {
  const std::size_t all = table.back().offset + table.back().size;
  Parameters parameters{table, me.allocate(all, DType::f32, Category::parameter), {}};
  std::vector<float> values;
  for (std::size_t e = 0; e < all; ++e)
    values.push_back(static_cast<float>(1000 * me.rank() + static_cast<int>(e) + 1));
  upload(me, parameters.values, values);
  return parameters;
}

/// Pieces of three tensors; the last one uses tensor 0 again, as a tied embedding.
inline UsageOrder scripted_usage_order(std::size_t tensors) {
  UsageOrder usage_order;
  for (std::size_t i = 0; i < tensors; ++i) {
    if (i % 3 == 0) usage_order.emplace_back();
    usage_order.back().push_back(i);
  }
  if (usage_order.size() > 1) usage_order.back().push_back(0);
  return usage_order;
}

/// Units of two tensors: some are used by one piece, some by two that follow each other, one by the first and the last.
inline std::vector<Unit> scripted_units(const std::vector<Parameter>& table) {
  std::vector<Unit> units;
  for (std::size_t i = 0; i < table.size(); i += 2)
    units.push_back(make_unit(table, i, std::min<std::size_t>(2, table.size() - i)));
  return units;
}

/// The slices that the model's tensors are bound to, by tensor.
struct Bound {
  std::vector<Slice> values, gradients;
  explicit Bound(std::size_t tensors) : values(tensors), gradients(tensors) {}
};

/// The backward pass of one piece: adds this rank's scripted gradient to the bound tensors. A tensor that two pieces
/// use gets twice the gradient in the one that comes first, and minus once in the other.
inline void add_scripted_piece(Rank me, const std::vector<Parameter>& table, const UsageOrder& usage_order,
                               std::size_t piece, const Bound& bound, int window, int pass) {
  for (std::size_t tensor : usage_order[piece]) {
    const Parameter& parameter = table[tensor];
    const bool twice = tensor == 0 && usage_order.size() > 1;
    const float times = !twice ? 1.0f : piece == 0 ? -1.0f : 2.0f;
    std::vector<float> values(parameter.size);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = times * testing::scripted_gradient(me.rank(), window, pass, parameter.offset + i);
    Slice scratch = me.allocate(values.size(), DType::f32, Category::buffer);
    upload(me, scratch, values);
    add(me, bound.gradients[tensor], scratch);
  }
}

/// Elements of one rank's chunks of all units.
inline std::size_t share_elements(const std::vector<Unit>& units, int rank, int ranks) {
  std::size_t sum = 0;
  for (const Unit& unit : units) sum += unit.shard((rank + ranks) % ranks, ranks).size;
  return sum;
}
inline std::size_t all_elements(const std::vector<Unit>& units) { return units.back().offset + units.back().size; }

/// Every chunk but one's own: what a rank sends in a reduce-scatter of every unit, and receives in an all-gather. What
/// it receives in the one and sends in the other depends on the way that chunks take.
inline std::size_t others_elements(const std::vector<Unit>& units, int rank, int ranks) {
  return all_elements(units) - share_elements(units, rank, ranks);
}
/// The limit that no rank exceeds in the other direction: its longest chunk of each unit, p − 1 times.
inline std::size_t most_handed_on(const std::vector<Unit>& units, int ranks) {
  return static_cast<std::size_t>(ranks - 1) * share_elements(units, 0, ranks);
}

/// The begin of rank's chunk of each unit in the flat slices; and every element of these chunks, unit by unit.
inline std::vector<std::size_t> first_of_shares(const std::vector<Unit>& units, int rank, int ranks) {
  std::vector<std::size_t> first;
  for (const Unit& unit : units) first.push_back(unit.offset + unit.shard(rank, ranks).offset);
  return first;
}
inline std::vector<std::size_t> elements_of_shares(const std::vector<Unit>& units, int rank, int ranks) {
  std::vector<std::size_t> elements;
  for (const Unit& unit : units)
    for (std::size_t i = 0; i < unit.shard(rank, ranks).size; ++i)
      elements.push_back(unit.offset + unit.shard(rank, ranks).offset + i);
  return elements;
}

/// The values of slices, one after the other.
inline std::vector<float> joined(Rank me, const std::vector<Slice>& slices) {
  std::vector<float> values;
  for (const Slice& slice : slices)
    for (float value : to_host(me, slice)) values.push_back(value);
  return values;
}

/// One element of the averages of a window's passes, added up as they come.
inline float average_of(int ranks, int window, int passes, std::size_t element) {
  float average = 0;
  for (int pass = 0; pass < passes; ++pass) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += testing::scripted_gradient(r, window, pass, element);
    average += sum * (1.0f / static_cast<float>(ranks));
  }
  return average;
}

/// The first element of rank's shares that is not the sum of `passes` averages; "" when all are right. `seen` holds the
/// shares unit by unit, from `at` on, which is moved behind them.
/// `passes_before` of the window before: remains of its shares are named.
inline std::string wrong_shares(const std::vector<Unit>& units, const Values& seen, std::size_t& at, int rank,
                                int ranks, int window, int passes, int passes_before) {
  for (const Unit& unit : units) {
    const ChunkRange mine = unit.shard(rank, ranks);
    for (std::size_t e = unit.offset + mine.offset; e < unit.offset + mine.offset + mine.size; ++e, ++at) {
      const float expected = average_of(ranks, window, passes, e);
      if (seen.at(at) == expected) continue;
      const bool left = window > 0 && std::abs(seen[at] - expected - average_of(ranks, window - 1, passes_before, e)) <
                                          1e-6 * expected;
      const testing::ScriptedWindow script{ranks, window, passes};
      return fmt::format("rank {}, window {}: element {} of its share of {}'s unit is {}, expected {}. It is {}.", rank,
                         window, e - unit.offset, unit.name, seen[at], expected,
                         left ? "that, and the share of the window before: a step ends with shares of zero"
                              : script.explain(seen[at], rank, 0, e));
    }
  }
  return "";
}

}  // namespace lockstep::week22

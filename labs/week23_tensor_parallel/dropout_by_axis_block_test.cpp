// Tests of exercise 23.8, part c and all parts together: checkpointed blocks on every layout against one rank, bit for
// bit, since all numbers are whole.
#include <array>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/dropout_by_axis_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"

namespace lockstep::week23::dropout_by_axis_test {
namespace {

constexpr std::size_t kSequences = 17, kPositions = 2, kRows = kSequences * kPositions, kChannels = 4, kHidden = 24;
constexpr Activation kNarrow{kSequences, kPositions, kChannels};
constexpr std::uint64_t kSeed = 11;

/// −1, 0 and 1.
HostMatrix signs(int kind, std::size_t rows, std::size_t columns) {
  HostMatrix matrix = numbers(kind, rows, columns);
  for (float& value : matrix.values) value = value > 0 ? 1.0f : value < 0 ? -1.0f : 0.0f;
  return matrix;
}
HostMatrix up_of(std::size_t layer) { return signs(60 + static_cast<int>(layer), kHidden, kChannels); }
HostMatrix down_of(std::size_t layer) { return signs(70 + static_cast<int>(layer), kChannels, kHidden); }
HostMatrix input_of(std::uint64_t step) { return signs(80 + static_cast<int>(step), kRows, kChannels); }
HostMatrix gradient_of(std::uint64_t step) { return signs(90 + static_cast<int>(step), kRows, kChannels); }

/// Blocks and steps of a run.
struct Extent {
  std::size_t layers = 1;
  std::vector<std::uint64_t> steps;
};
constexpr std::array<Place, 2> kPlaces{Place::hidden, Place::mlp};

DroppedBlock block_of(const TensorParallel& tp, std::size_t layer) {
  const std::size_t own = kHidden / static_cast<std::size_t>(tp.group.size()),
                    first = own * static_cast<std::size_t>(tp.group.rank());
  const Slice up = uploaded(tp.group, cut_rows(up_of(layer), first, own), Category::parameter);
  const Slice down = uploaded(tp.group, cut_columns(down_of(layer), first, own), Category::parameter);
  return {.tp = tp,
          .values = {{up, {}}, {down, {}}},
          .gradients = {{zeros(tp.group, up), {}}, {zeros(tp.group, down), {}}},
          .channels = kChannels,
          .hidden = kHidden,
          .layer = layer,
          .p = kP};
}

/// One step's microbatch through all blocks and back; only the blocks' inputs are kept. y and dx of this rank's rows.
void run_blocks(const std::vector<DroppedBlock>& blocks, const Moment& now, Values& seen) {
  Rank me = blocks[0].tp.group;
  const ChunkRange rows = right_piece(kNarrow, now.layout, now.here, Split::replicated).rows;
  const std::size_t wide = rows.size * kHidden / static_cast<std::size_t>(me.size());
  Slice hidden = unwritten(me, wide), dhidden = unwritten(me, wide);
  std::vector<Slice> inputs{uploaded(me, cut_rows(input_of(now.step), rows.offset, rows.size))};
  for (const DroppedBlock& block : blocks) {
    inputs.push_back(unwritten(me, rows.size * kChannels));
    block_forward(block, now, inputs.back(), hidden, inputs[inputs.size() - 2]);
  }
  append(seen, to_host(me, inputs.back()));
  Slice dy = uploaded(me, cut_rows(gradient_of(now.step), rows.offset, rows.size));
  for (std::size_t layer = blocks.size(); layer-- > 0;) {
    Slice dx = unwritten(me, rows.size * kChannels);
    block_backward(blocks[layer], now, dx, hidden, dhidden, dy, inputs[layer]);
    dy = dx;
  }
  append(seen, to_host(me, dy));
}

testing::CaseProgram program_of(const Extent& extent) {
  return [=](Rank me, const Case& c) {
    Values seen;
    const Layout layout = layout_of(c);
    const TensorParallel tp = make_tensor_parallel(me.split(me.rank() / layout.tp, me.rank()), false);
    for (const std::uint64_t step : extent.steps)
      for (std::size_t layer = 0; layer < extent.layers; ++layer)
        for (const Place place : kPlaces) {
          const Random key = dropout_key(kSeed, step, layer, place);
          for (const std::uint64_t number : {key.seed, key.tensor, key.step})
            for (const std::uint64_t half : {number >> 32, number & 0xffffffffu})
              seen.push_back(static_cast<double>(half));
        }
    std::vector<DroppedBlock> blocks;
    for (std::size_t layer = 0; layer < extent.layers; ++layer) blocks.push_back(block_of(tp, layer));
    for (const std::uint64_t step : extent.steps)
      for (int micro = 0; micro < layout.microbatches; ++micro)
        run_blocks(blocks, {kSeed, step, layout, position_of(layout, me.rank(), micro), kSequences, kPositions}, seen);
    for (const DroppedBlock& block : blocks)
      for (const Slice& gradient : {block.gradients.up.weight, block.gradients.down.weight})
        append(seen, to_host(me, gradient));
    return seen;
  };
}

/// The operations that one rank computes, or would compute with a mistake.
struct Variant {
  bool hidden = true, output = true, residual = true;  // the forward pass
  bool again = true, gradient_of_output = true, gradient_of_hidden = true, gradient_of_residual = true;
  const char* meaning = "";
};
const std::vector<Variant>& mistakes() {
  static const std::vector<Variant> all{
      {.hidden = false, .again = false, .gradient_of_hidden = false, .meaning = "the hidden units are not dropped"},
      {.output = false, .gradient_of_output = false, .meaning = "down's output is not dropped"},
      {.residual = false, .gradient_of_residual = false, .meaning = "the residual connection is missing"},
      {.again = false,
       .meaning = "the recomputed hidden units are not those of the forward pass: they are not dropped"},
      {.gradient_of_output = false, .meaning = "dy has to be dropped as down's output was"},
      {.gradient_of_hidden = false, .meaning = "the hidden units' gradient has to be dropped as they were"},
      {.gradient_of_residual = false, .meaning = "dx lacks what comes through the residual connection"}};
  return all;
}

HostMatrix times(HostMatrix a, const HostMatrix& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] *= b.values[i];
  return a;
}

/// Results by name, in the order in which a rank returns them.
using Results = std::vector<std::pair<std::string, HostMatrix>>;

struct Serial {
  Extent extent;
  std::vector<HostMatrix> factors;  ///< by step, layer and place

  const HostMatrix& factor(std::size_t step, std::size_t layer, std::size_t place) const {
    return factors[(step * extent.layers + layer) * kPlaces.size() + place];
  }
  Results results(const Variant& v) const {
    Results results;
    std::vector<HostMatrix> up(extent.layers, {kHidden, kChannels, std::vector<float>(kHidden * kChannels)});
    std::vector<HostMatrix> down(extent.layers, {kChannels, kHidden, std::vector<float>(kHidden * kChannels)});
    for (std::size_t s = 0; s < extent.steps.size(); ++s) {
      std::vector<HostMatrix> x{input_of(extent.steps[s])};
      for (std::size_t l = 0; l < extent.layers; ++l) {
        HostMatrix h = product(x[l], up_of(l), Transposed::b);
        if (v.hidden) h = times(h, factor(s, l, 0));
        HostMatrix y = product(h, down_of(l), Transposed::b);
        if (v.output) y = times(y, factor(s, l, 1));
        x.push_back(v.residual ? plus(y, x[l]) : y);
      }
      HostMatrix dy = gradient_of(extent.steps[s]);
      for (std::size_t l = extent.layers; l-- > 0;) {
        HostMatrix h = product(x[l], up_of(l), Transposed::b);
        if (v.again) h = times(h, factor(s, l, 0));
        const HostMatrix d = v.gradient_of_output ? times(dy, factor(s, l, 1)) : dy;
        down[l] = plus(down[l], product(d, h, Transposed::a));
        HostMatrix dh = product(d, down_of(l), Transposed::none);
        if (v.gradient_of_hidden) dh = times(dh, factor(s, l, 0));
        up[l] = plus(up[l], product(dh, x[l], Transposed::a));
        const HostMatrix dx = product(dh, up_of(l), Transposed::none);
        dy = v.gradient_of_residual ? plus(dx, dy) : dx;
      }
      results.emplace_back(fmt::format("step {}: y", extent.steps[s]), x.back());
      results.emplace_back(fmt::format("step {}: dx", extent.steps[s]), dy);
    }
    for (std::size_t l = 0; l < extent.layers; ++l) {
      results.emplace_back(fmt::format("the gradient of layer {}'s up", l), up[l]);
      results.emplace_back(fmt::format("the gradient of layer {}'s down", l), down[l]);
    }
    return results;
  }
};

/// Reads keys, and computes their factors.
Serial serial_of(const Extent& extent, const Values& seen, std::size_t& at) {
  Serial serial{extent, {}};
  const auto next = [&] {
    const double high = seen.at(at++), low = seen.at(at++);
    return static_cast<std::uint64_t>(high) << 32 | static_cast<std::uint64_t>(low);
  };
  for (std::size_t n = 0; n < extent.steps.size() * extent.layers; ++n)
    for (const Place place : kPlaces) {
      const std::size_t width = place == Place::hidden ? kHidden : kChannels;
      Random key;
      key.seed = next(), key.tensor = next(), key.step = next();
      serial.factors.push_back({kRows, width, factors_of(key, kP, kRows * width)});
    }
  return serial;
}

/// Puts the ranks' parts together, in the order of Serial::results; a gradient is the sum over the replicas.
class Together {
 public:
  Together(const Layout& layout, const Extent& extent, const Outcome& outcome, std::size_t at)
      : layout_(layout), outcome_(outcome), at_(outcome.values.size(), at) {
    for (std::size_t s = 0; s < extent.steps.size(); ++s) {
      HostMatrix y = signs(0, kRows, kChannels), dx = y;
      for (int micro = 0; micro < layout.microbatches; ++micro) rows(y, micro), rows(dx, micro);
      results_.push_back(y), results_.push_back(dx);
    }
    for (std::size_t l = 0; l < extent.layers; ++l) {
      results_.push_back(gradient(kHidden, kChannels, /*by_rows=*/true));
      results_.push_back(gradient(kChannels, kHidden, /*by_rows=*/false));
    }
  }
  const std::vector<HostMatrix>& results() const { return results_; }
  const std::string& complaint() const { return complaint_; }

 private:
  void rows(HostMatrix& whole, int micro) {
    for (int rank = 0; rank < static_cast<int>(at_.size()); ++rank) {
      const Position here = position_of(layout_, rank, micro);
      const ChunkRange piece = right_piece(kNarrow, layout_, here, Split::replicated).rows;
      for (std::size_t i = piece.offset * kChannels; i < (piece.offset + piece.size) * kChannels; ++i) {
        const auto value = static_cast<float>(next(rank));
        if (here.tp > 0 && value != whole.values[i] && complaint_.empty())
          complaint_ = fmt::format(
              "ranks {} and {} share a replica, and have {:g} and {:g} in row {}, column {} of one "
              "result",
              rank - here.tp, rank, whole.values[i], value, i / kChannels, i % kChannels);
        if (here.tp == 0) whole.values[i] = value;
      }
    }
  }
  HostMatrix gradient(std::size_t of_rows, std::size_t columns, bool by_rows) {
    HostMatrix sum{of_rows, columns, std::vector<float>(of_rows * columns)};
    const std::size_t own = kHidden / static_cast<std::size_t>(layout_.tp);
    for (int rank = 0; rank < static_cast<int>(at_.size()); ++rank) {
      const std::size_t first = own * static_cast<std::size_t>(rank % layout_.tp), width = by_rows ? columns : own;
      for (std::size_t i = 0; i < (by_rows ? own : of_rows); ++i)
        for (std::size_t j = 0; j < width; ++j)
          sum.values[by_rows ? (first + i) * columns + j : i * columns + first + j] += static_cast<float>(next(rank));
    }
    return sum;
  }
  double next(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return outcome_.values[r].at(at_[r]++);
  }

  const Layout layout_;
  const Outcome& outcome_;
  std::vector<std::size_t> at_;
  std::vector<HostMatrix> results_;
  std::string complaint_;
};

/// True if results 0 … n are those of `other`.
bool is_up_to(const std::vector<HostMatrix>& results, const Results& other, std::size_t n) {
  for (std::size_t i = 0; i <= n; ++i)
    if (results[i].values != other[i].second.values) return false;
  return true;
}

testing::CaseJudge judge_of(const Extent& extent) {
  return [=](const Case& c, const Outcome& outcome) -> std::string {
    std::size_t at = 0;
    const Serial serial = serial_of(extent, outcome.values[0], at);
    const Together together(layout_of(c), extent, outcome, at);
    const Results right = serial.results({});
    for (std::size_t n = 0; n < right.size(); ++n) {
      const auto& [name, exact] = right[n];
      const HostMatrix& is = together.results()[n];
      for (std::size_t i = 0; i < exact.values.size(); ++i) {
        if (is.values[i] == exact.values[i]) continue;
        std::string cause = std::isnan(is.values[i]) ? ": uninitialised memory" : "";
        for (const Variant& mistake : mistakes())
          if (cause.empty() && is_up_to(together.results(), serial.results(mistake), n))
            cause = std::string(": ") + mistake.meaning;
        if (cause.empty() && !together.complaint().empty()) cause = ": " + together.complaint();
        if (cause.empty() && n % 2 == 1 && n + 2 * extent.layers >= right.size())
          cause = ": are the recomputed hidden units those of the forward pass?";
        return fmt::format("{}: {}, row {}, column {} is {:g}, on one rank {:g}{}", name_of(layout_of(c)), name,
                           i / exact.columns, i % exact.columns, is.values[i], exact.values[i], cause);
      }
    }
    return together.complaint().empty() ? "" : name_of(layout_of(c)) + ": " + together.complaint();
  };
}

/// Says where part a is wrong about rows, on which every draw depends.
std::string part_a_first() {
  for (const int ranks : {1, 2, 4})
    for (const Layout& layout : layouts_of(ranks))
      for (int i = 0; i < ranks * layout.microbatches; ++i) {
        const Position here = position_of(layout, i / layout.microbatches, i % layout.microbatches);
        const ChunkRange is = piece_of(kNarrow, layout, here, Split::replicated).rows,
                         right = right_piece(kNarrow, layout, here, Split::replicated).rows;
        if (is.size != right.size || is.offset != right.offset)
          return fmt::format("23.8a first: {}: {} should have {} from row {} on, and piece_of says {} from row {} on.",
                             name_of(layout), name_of(here), counted(right.size, "row"), right.offset, is.size,
                             is.offset);
      }
  return "";
}
CasePlan plan_of_blocks() {
  CasePlan plan = plan_of_layouts();
  plan.cause = part_a_first;
  return plan;
}

TEST(Lab23_8c, ACheckpointedBlockIsTheSerialBlock) {
  const Extent extent{.layers = 1, .steps = {3}};
  run_cases(program_of(extent), judge_of(extent), plan_of_blocks());
}

/// A forward and a backward pass, or in their place only their sums, with all memory that they may use.
Values block_alone(Rank me, bool only_sums) {
  const DroppedBlock block = block_of(make_tensor_parallel(me, false), 0);
  const Moment now{kSeed, 0, {.tp = me.size()}, {.tp = me.rank()}, kSequences, kPositions};
  const std::size_t wide = kRows * kHidden / static_cast<std::size_t>(me.size());
  Slice x = uploaded(me, input_of(0)), dy = uploaded(me, gradient_of(0));
  Slice y = unwritten(me, kRows * kChannels), dx = unwritten(me, kRows * kChannels), hidden = unwritten(me, wide),
        dhidden = unwritten(me, wide);
  if (only_sums) {
    for (const Slice& sum : {y, dx}) week21::ring_all_reduce(me, sum);
    return {};
  }
  block_forward(block, now, y, hidden, x);
  block_backward(block, now, dx, hidden, dhidden, dy, x);
  Values seen;
  for (const Slice& kept : {x, dy}) append(seen, to_host(me, kept));
  return seen;
}
CasePlan plan_of_one_group() { return {.ranks = {1, 2, 4, 8}, .sizes = sizes_of({kHidden}), .unit = "hidden unit"}; }

TEST(Lab23_8c, TwoSumsAndNoMask) {
  const auto judge = [](const Case&, const Outcome& outcome) -> std::string {
    if (std::string wrong = not_two_sums(outcome, "down forward", "up backward", 4 * kRows * kChannels); !wrong.empty())
      return wrong;
    for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
      Reader reader(outcome.values[rank], static_cast<int>(rank));
      reader.expect("x after both passes", input_of(0)).expect("dy after both passes", gradient_of(0));
      if (!reader.complaint().empty()) return reader.complaint();
    }
    return more_memory_than(
        outcome, [](Rank me) { return block_alone(me, true); },
        "the draws are made again, so no mask is kept, and both passes have their scratch");
  };
  run_cases([](Rank me, const Case&) { return block_alone(me, false); }, judge, plan_of_one_group());
}

// All parts together --------------------------------------------------------------------------------------------------

/// Two blocks, of which the backward pass asks for the last one's draws first, in three steps, of which one is left
/// out.
TEST(Lab23_8, EveryLayoutTrainsAsOneRank) {
  const Extent extent{.layers = 2, .steps = {0, 1, 7}};
  run_cases(program_of(extent), judge_of(extent), plan_of_blocks());
}

}  // namespace
}  // namespace lockstep::week23::dropout_by_axis_test

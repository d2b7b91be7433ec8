#include "labs/trainer/peak_memory.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/gpt/model/block.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/units.hpp"
#include "labs/trainer/engine.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week22_zero/visits.hpp"

namespace lockstep::week25 {

namespace {

// Model state ---------------------------------------------------------------------------------------------------------

std::size_t elements_of(const std::vector<Parameter>& table) { return table.back().offset + table.back().size; }

/// The longest chunk of each unit, summed.
std::size_t shard_elements(const std::vector<Unit>& units, int ranks) {
  std::size_t sum = 0;
  for (const Unit& unit : units) sum += unit.shard(0, ranks).size;
  return sum;
}

class Nobody final : public BlockOwner {
 public:
  void release(Block& /*block*/) override {}
};

/// The most elements of whole gradients at one time in a backward pass of ZeRO-2 or 3 that communicates beside main: of
/// the units that it works on, and of those whose reduction main has not waited for, nor for anything later of that
/// queue. ZeRO-3 also gathers values there, and waits for them, `ahead` units before their use.
std::size_t most_gradients(const std::vector<Unit>& units, const week22::Visits& visits, std::size_t ahead) {
  struct Reduction {
    int ticket;
    std::size_t elements;
  };
  const week22::UnitTimes times = unit_times(units, visits, week22::Pass::backward);
  std::vector<int> gathered(units.size(), 0);
  std::vector<bool> lent(units.size(), false);
  std::deque<Reduction> reductions;
  int ticket = 0, last = 0, before_last = 0;
  std::size_t used = 0, next = 0, live = 0, most = 0;
  const auto wait = [&](int until) {
    for (; !reductions.empty() && reductions.front().ticket <= until; reductions.pop_front())
      live -= reductions.front().elements;
  };
  for (std::size_t now = 0; now < visits.size(); ++now) {
    for (const std::size_t u : times.order)
      if (lent[u] && times.end[u] < now) {
        lent[u] = false;
        before_last = std::exchange(last, ++ticket);
        reductions.push_back({ticket, units[u].size});
      }
    while (used < units.size() && times.begin[times.order[used]] <= now) ++used;
    for (; ahead > 0 && next < std::min(units.size(), used + ahead); ++next) gathered[times.order[next]] = ++ticket;
    for (const std::size_t u : times.order)
      if (!lent[u] && times.begin[u] <= now && now <= times.end[u]) {
        wait(std::max(gathered[u], before_last));
        most = std::max(most, live += units[u].size);
        lent[u] = true;
      }
  }
  return most;
}

/// Adds what one engine keeps of its tensors, in elements.
void add_engine(PeakMemory& state, const std::vector<Parameter>& table, const Options3d& o) {
  using week22::Pass;
  const std::size_t whole = elements_of(table);
  if (o.zero < 2) {
    state.parameter += whole;
    state.gradient += whole;
    state.optimizer += o.zero == 0 ? whole : shard_elements(bucket_units(table, o), o.mesh.dp);
    return;
  }
  const std::vector<Unit> units = week22::wrap(table, o.wrapping);
  const week22::Visits visits = gpt_visits(o.model);  // of the whole model: there are no stages
  const std::size_t shards = shard_elements(units, o.mesh.dp);
  const std::size_t ahead = o.zero == 3 && o.overlap ? static_cast<std::size_t>(o.prefetch) : 0;
  const auto most = [&](Pass pass) { return week22::most_elements(units, visits, pass, ahead, false); };
  state.parameter += o.zero == 2 ? whole : shards + std::max(most(Pass::forward), most(Pass::backward));
  const bool beside = o.zero == 2 ? o.overlap : ahead > 0;
  state.gradient += shards + (beside ? most_gradients(units, visits, ahead)
                                     : week22::most_elements(units, visits, Pass::backward, 0, false));
  state.optimizer += shards;
}

// Activations ---------------------------------------------------------------------------------------------------------

/// Bytes of a microbatch.
struct Sizes {
  std::size_t narrow = 0;  ///< what crosses a boundary: rows × channels
  std::size_t wide = 0;    ///< this rank's channels of all rows
  std::size_t norms = 0;   ///< statistics of one norm
  std::size_t scores = 0;  ///< attention's statistics, or its probabilities
  std::size_t logits = 0;

  /// Of a block, beside its input.
  std::size_t block() const { return 3 * narrow + 12 * wide + 2 * norms + scores; }
  /// What the first half of its backward keeps for the second: the gradients of the outputs of its four linear layers.
  std::size_t later() const { return 2 * narrow + 7 * wide; }
};

Sizes sizes_of(const Options3d& o, std::size_t sequences) {
  const GptConfig config = o.part(0);
  const BlockShape shape{sequences, o.sequence, config.heads, config.d_model, config.attention, config.tensor};
  const std::size_t element = bytes_of(config.storage), scores = shape.rows() * shape.attention().heads;
  const bool flash = config.attention == AttentionKind::flash;
  return {.narrow = shape.norm_rows() * config.d_model * element,
          .wide = shape.rows() * shape.own_width() * element,
          .norms = 2 * shape.norm_rows() * sizeof(float),
          .scores = scores * (flash ? sizeof(float) : o.sequence * element),
          .logits = shape.rows() * config.own_vocabulary() * element};
}

/// The allocations of a stage's model (GptStage) and of the interpreter of 24.1, in their order, and none of the work.
class Replay {
 public:
  Replay(const Options3d& o, int stage) : o_(o), stage_(stage), first_(stage_pieces(o)) {
    const std::size_t shard = chunk_range(o.batch, 0, o.mesh.dp).size;
    for (int i = 0; i < o.microbatches; ++i) sizes_.push_back(sizes_of(o, chunk_range(shard, i, o.microbatches).size));
    const bool spare = o.recompute == week22::Recompute::full && o.mesh.pp > 1;
    grow(2 * sizes_[0].narrow + 4 * sizes_[0].wide + (spare ? sizes_[0].narrow : 0));
  }

  std::size_t peak() const { return peak_; }

  void run(const StageSchedule& steps, bool trains) {
    kinds_ = {{{true}, {false}}};
    for (const Step& step : steps) {
      post_receives(steps);
      if (step.work == Work::forward)
        forward(step, trains);
      else
        backward(step);
    }
    sent_ = {};
  }

 private:
  using Memory = std::shared_ptr<void>;  ///< counted as a Slice is

  void grow(std::size_t bytes) { peak_ = std::max(peak_, live_ += bytes); }
  Memory allocate(std::size_t bytes) {
    grow(bytes);
    return {this, [bytes](Replay* replay) { replay->live_ -= bytes; }};
  }
  Memory boundary(const Step& step) { return allocate(sizes_[static_cast<std::size_t>(step.microbatch)].narrow); }

  std::size_t part(int chunk) const { return static_cast<std::size_t>(chunk * o_.mesh.pp + stage_); }
  bool embeds(int chunk) const { return part(chunk) == 0; }
  bool has_head(int chunk) const { return part(chunk) + 2 == first_.size(); }
  /// Whether something comes from a neighbour for this step, and whether its result goes to one.
  bool receives(const Step& step) const {
    return step.work == Work::forward ? !embeds(step.chunk)
                                      : step.work != Work::weight_gradient && !has_head(step.chunk);
  }
  bool sends(const Step& step) const {
    return step.work == Work::forward ? !has_head(step.chunk)
                                      : step.work != Work::weight_gradient && !embeds(step.chunk);
  }

  struct Kind {
    bool forward = false;
    std::size_t next = 0;
    int under_way = 0;
  };
  void post_receives(const StageSchedule& steps) {
    for (Kind& kind : kinds_)
      for (; kind.under_way < 2 && kind.next < steps.size(); ++kind.next) {
        const Step& step = steps[kind.next];
        if ((step.work == Work::forward) != kind.forward || !receives(step)) continue;
        arriving_[step] = boundary(step);
        ++kind.under_way;
      }
  }
  Memory arrived(const Step& step) {
    if (!receives(step)) return nullptr;
    --kinds_[step.work == Work::forward ? 0 : 1].under_way;
    return std::move(arriving_.extract(step).mapped());
  }
  void send_later(bool forward, Memory memory) {
    std::deque<Memory>& under_way = sent_[forward ? 0 : 1];
    under_way.push_back(std::move(memory));
    if (under_way.size() > 2) under_way.pop_front();
  }

  void forward(const Step& step, bool trains) {
    Memory input = arrived(step), output = sends(step) ? boundary(step) : nullptr;
    int& free = free_[step.chunk];
    if (free == 0)
      allocate_part(step.chunk);
    else
      --free;
    if (trains)
      in_flight_[{step.microbatch, step.chunk}] = {std::move(input)};
    else
      ++free;
    if (sends(step)) send_later(true, std::move(output));
  }

  void backward(const Step& step) {
    const std::pair key{step.microbatch, step.chunk};
    const Memory output_gradient = arrived(step);
    Memory input_gradient = sends(step) ? boundary(step) : nullptr;
    if (step.work == Work::input_gradient) {
      const Sizes& size = sizes_[static_cast<std::size_t>(step.microbatch)];
      in_flight_[key].push_back(allocate(blocks(step.chunk) * size.later()));
      in_flight_[key].push_back(input_gradient);
    } else {
      in_flight_.erase(key);
      ++free_[step.chunk];
    }
    if (sends(step)) send_later(false, std::move(input_gradient));
  }

  std::size_t blocks(int chunk) const {
    return first_[part(chunk) + 1] - first_[part(chunk)] - (has_head(chunk) ? 1 : 0) - (embeds(chunk) ? 1 : 0);
  }
  /// What a microbatch in flight keeps of a part; the next one finds it again.
  void allocate_part(int chunk) {
    const Sizes& size = sizes_[0];
    for (std::size_t b = 0; b < blocks(chunk); ++b) {
      allocate_block();
      if (b > 0 || embeds(chunk)) grow(size.narrow);  // its input
    }
    if (!has_head(chunk)) return;
    if (blocks(chunk) > 0 || embeds(chunk)) grow(size.narrow);
    grow(size.narrow + size.norms + size.logits);
  }
  /// All of a block, or what it does not share with those before it.
  void allocate_block() {
    using week22::Recompute;
    const Sizes& size = sizes_[0];
    const bool first = !std::exchange(shared_, true);
    if (!first && o_.recompute == Recompute::full) return;
    const std::size_t shared = !first && o_.recompute == Recompute::selective ? size.scores : 0;
    allocate(size.narrow + size.block() - shared);
    grow(size.block() - shared);
  }

  const Options3d& o_;
  int stage_;
  std::vector<std::size_t> first_;  // piece of each part
  std::vector<Sizes> sizes_;        // by microbatch; the first is the largest
  std::size_t live_ = 0, peak_ = 0;
  bool shared_ = false;  // there is a block whose memory others may share
  std::array<Kind, 2> kinds_;
  std::map<Step, Memory> arriving_;
  std::array<std::deque<Memory>, 2> sent_;                        // outputs, input gradients
  std::map<std::pair<int, int>, std::vector<Memory>> in_flight_;  // by (microbatch, chunk): what came, what is kept
  std::map<int, int> free_;                                       // by chunk: parts that no microbatch uses
};

}  // namespace

std::vector<Unit> bucket_units(const std::vector<Parameter>& table, const Options3d& o) {
  Nobody nobody;  // buckets are cuts of the flat gradient, for which no memory is needed to count
  Block block{.category = Category::gradient,
              .dtype = o.model.storage,
              .bytes = elements_of(table) * bytes_of(o.model.storage),
              .owner = &nobody};
  std::vector<Unit> units;
  for (const week21::Bucket& bucket :
       week21::bucket_layout({table, {}, Slice(block)}, bucket_options(o.bucket_bytes, o.overlap)))
    units.push_back(make_unit(table, bucket.first, bucket.count));
  return units;
}

std::size_t activation_bytes(const Options3d& o, int stage, RunLength length) {
  Replay replay(o, stage);
  for (int step = 0; step < std::min(length.steps, 2); ++step) replay.run(stage_schedule(o, stage), true);
  if (length.validates) replay.run(forward_schedule({o.mesh.pp, o.microbatches, o.chunks}), false);
  return replay.peak();
}

PeakMemory peak_memory(const Options3d& o, int stage, RunLength length) {
  PeakMemory state;
  for (const std::vector<Parameter>& table : engine_tables(o, stage)) add_engine(state, table, o);
  const std::size_t element = bytes_of(o.model.storage);
  return {.parameter = state.parameter * element,
          .gradient = state.gradient * element,
          .optimizer = state.optimizer * (element < sizeof(float) ? 12 : 8),
          .activation = activation_bytes(o, stage, length)};
}

PeakMemory peak_memory(const Options3d& o, RunLength length) {
  PeakMemory most;
  for (int stage = 0; stage < o.mesh.pp; ++stage) {
    const PeakMemory here = peak_memory(o, stage, length);
    most = {std::max(most.parameter, here.parameter), std::max(most.gradient, here.gradient),
            std::max(most.optimizer, here.optimizer), std::max(most.activation, here.activation)};
  }
  return most;
}

}  // namespace lockstep::week25

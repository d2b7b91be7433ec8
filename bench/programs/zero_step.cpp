#include "bench/programs/zero_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "common/arithmetic.hpp"
#include "common/gpt/model/serial.hpp"
#include "labs/week22_zero/memory_calculator.hpp"

namespace lockstep::bench {

namespace {

using week22::Pass;
using week25::Engine;
using week25::EngineOptions;

constexpr float kRate = 0.01f;
constexpr std::uint64_t kSeed = 1;

/// Microbatch i of rank `rank`.
Batch batch_of(Rank me, const ZeroShape& shape, int rank, int i) {
  const std::size_t first =
      (static_cast<std::size_t>(rank) * static_cast<std::size_t>(shape.microbatches) + static_cast<std::size_t>(i)) *
      shape.sequences;
  return counted_batch(me, first, shape.sequences, shape.length, shape.model.vocabulary);
}

week25::EngineModel engine_model(Gpt& gpt) {
  return {.storage = gpt.config().storage,
          .parameters = gpt.parameters(),
          .usage_order = gpt_usage_order(gpt.config()),
          .bind = [&gpt](std::size_t i, Slice value,
                         Slice gradient) { gpt.bind(i, std::move(value), std::move(gradient)); },
          .begin = [table = gpt.parameters().list, config = gpt.config()](
                       Rank me, std::size_t i, std::size_t first,
                       Slice part) { initialise_part(me, config, table[i], i, first, std::move(part), kSeed); }};
}

/// Forward and backward of one microbatch with the engine's hooks: gradients (+=), and loss[0] += factor · Σ over
/// tokens.
void run_pass(Rank me, const Gpt& gpt, const Batch& batch, Activations& saved, Slice loss, float factor,
              const Engine::Hooks& hooks) {
  gpt.forward(me, batch, saved, hooks.before_forward);
  if (hooks.end_forward) hooks.end_forward();
  gpt.layers().loss(me, std::move(loss), saved.logits, batch.targets, factor, {});
  gpt.backward(me, batch, saved, hooks.ready, hooks.before_backward);
  if (hooks.end_backward) hooks.end_backward();
}

double seconds_in(const RankLedger& ledger, const std::vector<std::string_view>& names) {
  double seconds = 0;
  for (const RegionTotal& region : ledger.regions)
    if (std::find(names.begin(), names.end(), region.name) != names.end()) seconds += region.seconds;
  return seconds;
}

/// Adds what an act gained.
void note(Waits& waits, const RankLedger& before, const RankLedger& after) {
  const auto gained = [&](const std::vector<std::string_view>& names) {
    return seconds_in(after, names) - seconds_in(before, names);
  };
  waits.exposed.push_back(after.queues[0].waiting - before.queues[0].waiting);
  waits.communication.push_back(gained({"ring_all_reduce", "reduce_scatter", "all_gather"}));
  waits.optimizer.push_back(gained({"optimizer"}));
}

EngineOptions options_of(const ZeroShape& shape) {
  EngineOptions options = shape.engine;
  options.microbatches = shape.microbatches;
  options.adamw.epsilon = 1e-3f;  // makes a step proportional to the gradient, so that a wrong one shows
  return options;
}

/// The groups that each hold one copy of the state, if there are several.
std::optional<week21::Hierarchy> copies(Rank me, const EngineOptions& options) {
  if (options.shard_group == 0) return {};
  return week21::split_by_node(me, options.shard_group);
}

constexpr Category kKinds[] = {Category::parameter, Category::gradient, Category::optimizer, Category::activation};
constexpr std::size_t kKindCount = std::size(kKinds);

/// The layout of the units, in elements; see Explained.
struct Layout {
  std::vector<Unit> units;
  UsageOrder usage_order;
};

/// Elements in one rank's chunks of all units.
std::size_t share(const Layout& layout, int rank, int ranks) {
  std::size_t sum = 0;
  for (const Unit& unit : layout.units) sum += unit.shard(rank, ranks).size;
  return sum;
}

std::size_t largest_share(const Layout& layout, int ranks) {
  std::size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, share(layout, rank, ranks));
  return most;
}

/// Bytes that the formula does not include, and the reason.
struct Explained {
  double bytes = 0;
  std::string reason;

  void add(double more, const std::string& why) {
    if (more == 0) return;
    bytes += more;
    reason += (reason.empty() ? "" : "; ") + why;
  }
};

/// Largest number of elements in whole gradients at one time in a backward pass of stage 3. A unit's gradients exist
/// from its first use until main has waited for its reduction, or for any later work on the same stream: waiting for a
/// gathered unit also frees a unit whose reduction was issued before.
std::size_t most_gradients(const Layout& layout, std::size_t ahead, bool overlap) {
  if (!overlap) return week22::most_elements(layout.units, layout.usage_order, Pass::backward, 0, false);
  const week22::UnitTimes times = week22::unit_times(layout.units, layout.usage_order, Pass::backward);
  std::vector<std::size_t> gathered(layout.units.size(), 0), reduced;  // position in the stream's work, from 1
  std::vector<bool> open(layout.units.size(), false);
  std::size_t work = 0, started = 0, used = 0, sum = 0, most = 0;
  std::vector<std::size_t> in_flight;  // elements, as in `reduced`
  const auto wait = [&](std::size_t until) {
    for (std::size_t i = 0; i < reduced.size(); ++i)
      if (reduced[i] <= until) in_flight[i] = 0;
  };
  for (std::size_t now = 0; now < layout.usage_order.size(); ++now) {
    for (std::size_t u : times.order)
      if (open[u] && times.end[u] < now) {
        open[u] = false;
        sum -= layout.units[u].size;
        reduced.push_back(++work);
        in_flight.push_back(layout.units[u].size);
      }
    while (used < times.order.size() && times.begin[times.order[used]] <= now) ++used;
    for (; started < std::min(times.order.size(), used + ahead); ++started) gathered[times.order[started]] = ++work;
    for (std::size_t u : times.order) {
      if (open[u] || times.begin[u] > now || times.end[u] < now) continue;
      wait(gathered[u]);
      if (reduced.size() > 1) wait(reduced[reduced.size() - 2]);
      open[u] = true;
      sum += layout.units[u].size;
      most = std::max(most, std::accumulate(in_flight.begin(), in_flight.end(), sum));
    }
  }
  return most;
}

std::string list_units(std::size_t ahead, bool behind, const char* used) {
  std::string text = used;
  if (ahead > 0) text += fmt::format(" and {} gathered ahead", ahead);
  if (behind) text += " and one being reduced";
  return text;
}

Explained explain(const ZeroShape& shape, int stage, int ranks, Category kind, bool peak, double formula,
                  const Layout& layout) {
  Explained explained;
  const EngineOptions& o = shape.engine;
  const auto element = static_cast<double>(bytes_of(shape.model.storage));
  const bool sharded = (kind == Category::parameter && stage == 3) || (kind == Category::gradient && stage >= 2) ||
                       (kind == Category::optimizer && stage >= 1);
  if (sharded) {
    const double each = kind == Category::optimizer ? (element == 4 ? 8 : 12) : element;
    explained.add(each * static_cast<double>(largest_share(layout, ranks)) - formula,
                  fmt::format("padding: {} units that p does not divide, the longer chunks on the first ranks",
                              layout.units.size()));
  }
  if (!peak) return explained;
  const auto whole = [&](Pass pass, std::size_t ahead, bool behind) {
    return element * static_cast<double>(week22::most_elements(layout.units, layout.usage_order, pass, ahead, behind));
  };
  const std::size_t ahead = o.overlap ? static_cast<std::size_t>(o.prefetch) : 0;
  const bool behind = o.overlap && (stage == 2 || ahead > 0);  // a reduction overlaps with main
  if (kind == Category::gradient && stage >= 2)
    explained.add(stage == 2 ? whole(Pass::backward, 0, behind)
                             : element * static_cast<double>(most_gradients(layout, ahead, behind)),
                  list_units(0, behind, "whole gradients of the units in use"));
  if (kind == Category::parameter && stage == 3) {
    explained.add(std::max(whole(Pass::forward, ahead, false), whole(Pass::backward, ahead, false)),
                  list_units(ahead, false, "the gathered units in use"));
  }
  return explained;
}

double formula_of(const ZeroShape& shape, int stage, int ranks, Category kind) {
  const GptConfig& model = shape.model;
  const auto parameters = static_cast<double>(model.parameters());
  const week22::ModelState state = week22::model_state(parameters, stage, ranks, week22::recipe_of(model.storage));
  if (kind == Category::parameter) return state.parameter_bytes;
  if (kind == Category::gradient) return state.gradient_bytes;
  if (kind == Category::optimizer) return state.optimizer_bytes;
  return static_cast<double>(activation_bytes(model, shape.sequences, shape.length));
}

}  // namespace

ZeroStep::ZeroStep(Rank me, const ZeroShape& shape)
    : me_(me),
      shape_(shape),
      gpt_(me, shape.model, kSeed, week25::owned_by_model(shape.engine.zero)),
      engine_(week25::make_engine(me, engine_model(gpt_), options_of(shape), nullptr, copies(me, shape.engine))),
      saved_(gpt_.allocate_activations(me, shape.sequences, shape.length)),
      loss_(me.allocate(1, DType::f32, Category::buffer)) {
  for (int i = 0; i < shape.microbatches; ++i) batches_.push_back(batch_of(me, shape, me.rank(), i));
  fill(me, loss_, 0);
}

void ZeroStep::act() {
  const float factor = 1 / static_cast<float>(shape_.tokens() * shape_.microbatches);
  engine_->window(shape_.microbatches, [&](int i, const Engine::Hooks& hooks) {
    run_pass(me_, gpt_, batches_[static_cast<std::size_t>(i)], saved_, loss_, factor, hooks);
  });
  engine_->step(kRate);
}

double ZeroStep::error() {
  Gpt gpt(me_, shape_.model, kSeed);
  const std::vector<float> first = to_host(me_, gpt.parameters().values);
  Optimizer optimizer(me_, gpt.parameters(), options_of(shape_).adamw);
  const float factor =
      1 / static_cast<float>(shape_.tokens() * shape_.microbatches * static_cast<std::size_t>(me_.size()));
  for (int rank = 0; rank < me_.size(); ++rank)
    for (int i = 0; i < shape_.microbatches; ++i)
      run_pass(me_, gpt, batch_of(me_, shape_, rank, i), saved_, loss_, factor, {});
  optimizer.step(me_, kRate);
  const std::vector<float> whole = to_host(me_, gpt.parameters().values);
  double gap = 0, moved = 0;
  const auto compare = [&](std::size_t offset, const Slice& kept) {
    const std::vector<float> mine = to_host(me_, kept);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      gap += std::pow(static_cast<double>(mine[i]) - whole[offset + i], 2);
      moved += std::pow(static_cast<double>(whole[offset + i]) - first[offset + i], 2);
    }
  };
  const std::vector<Slice> kept = engine_->value_shares();
  if (kept.front().size() == whole.size()) {
    compare(0, kept[0]);
  } else {
    const int copy = shape_.engine.shard_group ? shape_.engine.shard_group : me_.size();  // ranks that hold one
    const std::vector<Unit> units = engine_->units();
    for (std::size_t u = 0; u < units.size(); ++u)
      compare(units[u].offset + units[u].shard(me_.rank() % copy, copy).offset, kept[u]);
  }
  return std::sqrt(gap / moved);
}

GptConfig model_of_size(double parameters) {
  if (!(parameters >= 1e4) || !(parameters <= 1e14))
    throw Error(Verdict::usage, fmt::format("--params {:g}: from 1e4 to 1e14", parameters));
  // Kaplan et al. (arXiv 2001.08361): 12 L d²; depth about d / 64, as in GPT-2 and GPT-3.
  GptConfig model{.layers = 1, .heads = 1, .d_model = 64, .vocabulary = 1, .context = 1024};
  const double width = std::cbrt(0.85 * parameters * 64 / 12);
  model.d_model = std::max<std::size_t>(16, static_cast<std::size_t>(width / 64) * 64);
  if (model.d_model == 16 || parameters < 2e6) model.context = 64;
  model.heads = std::max<std::size_t>(1, model.d_model / 64);
  const double block =
      12.0 * static_cast<double>(model.d_model * model.d_model) + 13.0 * static_cast<double>(model.d_model);
  model.layers = std::max<std::size_t>(1, static_cast<std::size_t>(0.85 * parameters / block));
  const double rest = (parameters - static_cast<double>(model.parameters())) / static_cast<double>(model.d_model);
  model.vocabulary = static_cast<std::size_t>(std::max(2.0, 1 + rest));
  model.check();
  return model;
}

double ZeroStep::tolerance() const { return shape_.model.storage == DType::f32 ? 1e-3 : 0.1; }

Prepared prepare_zero(Rank me, const ZeroShape& shape, Purpose purpose, Waits* waits) {
  auto step = std::make_shared<ZeroStep>(me, shape);
  const auto act = [=] {
    const RankLedger before = ledger_of(me);
    step->act();
    if (purpose == Purpose::time && me.rank() == 0) note(*waits, before, ledger_of(me));
  };
  return {.act = act, .right = [step] { return step->error() < step->tolerance(); }};
}

std::vector<Row> weigh(const RunOptions& options, const ZeroShape& shape) {
  const int stage = shape.engine.zero;
  Layout layout{{}, gpt_usage_order(shape.model)};
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    ZeroStep step(me, shape);
    if (me.rank() == 0) layout.units = step.engine().units();  // the same on every rank
    step.act();
    const Memory memory = ledger_of(me).memory;
    Values seen;
    for (Category kind : kKinds) seen.push_back(static_cast<double>(memory.live_of(kind)));
    for (Category kind : kKinds) seen.push_back(static_cast<double>(memory.peak_of(kind)));
    return seen;
  });
  outcome.check();
  std::vector<Row> rows;
  if (!is_judge()) return rows;
  for (bool peak : {false, true})
    for (std::size_t k = 0; k < kKindCount; ++k) {
      double measured = 0;
      for (const Values& seen : outcome.values) measured = std::max(measured, seen[k + (peak ? kKindCount : 0)]);
      const double formula = formula_of(shape, stage, options.ranks, kKinds[k]);
      const Explained explained = explain(shape, stage, options.ranks, kKinds[k], peak, formula, layout);
      Row& row = rows.emplace_back();
      row.set("stage", stage).set("ranks", options.ranks).set("category", std::string(to_string(kKinds[k])));
      row.set("moment", peak ? "peak" : "resident").set("predicted_bytes", formula).set("measured_bytes", measured);
      row.set("explained_bytes", explained.bytes).set("reason", explained.reason);
    }
  return rows;
}

}  // namespace lockstep::bench

#include "labs/trainer/engine.hpp"

#include <algorithm>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/decay_groups.hpp"
#include "labs/week22_zero/hsdp.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "labs/week22_zero/zero1.hpp"
#include "labs/week22_zero/zero2.hpp"

namespace lockstep::week25 {

namespace {

week21::DdpOptions buckets_of(const EngineOptions& o) { return bucket_options(o.bucket_bytes, o.overlap); }

/// Runs one of DDP's windows, in which only the last pass communicates.
void run_ddp_window(week21::Ddp& ddp, int microbatches, const Engine::Hooks& hooks,
                    const std::function<void(int, const Engine::Hooks&)>& pass) {
  week21::run_window(ddp, microbatches, [&](int i) { pass(i, hooks); });
}

Engine::Hooks hooks_of(week21::Ddp& ddp) {
  Engine::Hooks hooks;
  hooks.ready = [&ddp](std::size_t i) { ddp.gradient_ready(i); };
  return hooks;
}

std::vector<Unit> units_of(const std::vector<Parameter>& table, const week21::Ddp& ddp) {
  std::vector<Unit> units;
  for (const week21::Bucket& bucket : ddp.buckets()) units.push_back(make_unit(table, bucket.first, bucket.count));
  return units;
}

/// Splits `share`, which has the elements `range` of the flat array, where tensors differ in kind: the groups
/// of 22.10a.
std::vector<Piece> split_by_kind(const std::vector<Parameter>& table, ChunkRange range, const Slice& share) {
  std::vector<week22::GroupedTensor> tensors;
  for (const Parameter& tensor : table) {
    const bool norm = tensor.name.find("norm") != std::string::npos;
    tensors.push_back({tensor.offset, tensor.size, (tensor.cut ? 2 : 0) + (norm ? 1 : 0)});
  }
  std::vector<Piece> pieces;
  for (const week22::Interval& part : week22::intervals_of(tensors, range))
    pieces.push_back({share.cut(part.offset, part.size), part.group >= 2, part.group % 2 == 1});
  return pieces;
}

std::vector<Piece> whole_pieces(const std::vector<Parameter>& table, const Slice& flat) {
  return split_by_kind(table, {0, flat.size()}, flat);
}

/// Shared by all stages.
class Base : public Engine {
 public:
  std::vector<Slice> value_shares() override { return {whole_values()}; }
  const std::vector<Parameter>& table() const override { return model_.parameters.list; }
  std::vector<Piece> value_pieces() override { return whole_pieces(table(), whole_values()); }
  Slice whole_values() override { return model_.parameters.values; }

 protected:
  Base(Rank dp, EngineModel model, const EngineOptions& o) : dp_(dp), model_(std::move(model)), options_(o) {}

  std::vector<Unit> wrapped_units() const { return week22::wrap(table(), options_.wrapping); }
  void zero_gradients() { fill(dp_, model_.parameters.gradients, 0); }

  Rank dp_;
  EngineModel model_;
  EngineOptions options_;
};

class PlainEngine final : public Base {
 public:
  PlainEngine(Rank dp, EngineModel model, const EngineOptions& o)
      : Base(dp, std::move(model), o), optimizer_(dp, model_.parameters, o.adamw) {
    if (dp.size() == 1 || o.local || o.average) return;
    const auto ring = [reduce = o.reduce](Rank queue, Slice gradients) {
      week22::sum_in(queue, std::move(gradients), reduce, week21::ring_all_reduce);
    };
    ddp_ = week21::make_ddp(dp, model_.parameters, buckets_of(o),
                            o.make_all_reduce ? o.make_all_reduce(dp, model_.parameters, steps_done()) : ring);
  }

  Hooks hooks() override { return ddp_ ? hooks_of(*ddp_) : Hooks{}; }
  void finish() override {
    if (ddp_) ddp_->finish();
    if (options_.average) options_.average(model_.parameters);
  }
  void window(int microbatches, const std::function<void(int, const Hooks&)>& pass) override {
    if (ddp_) return run_ddp_window(*ddp_, microbatches, hooks(), pass);
    Engine::window(microbatches, pass);
  }
  std::vector<Slice> gradient_shares() const override { return {model_.parameters.gradients}; }
  std::vector<Piece> gradient_pieces() const override {
    std::vector<Piece> pieces = whole_pieces(table(), model_.parameters.gradients);
    for (Piece& piece : pieces)
      if (options_.some_alone && !piece.cut) piece.elements = chunk(piece.elements, dp_.rank(), dp_.size());
    return pieces;
  }
  void step(float rate, Slice factor, Slice skip, Slice skipped) override {
    optimizer_.step(dp_, rate, std::move(factor), std::move(skip), std::move(skipped));
    zero_gradients();
  }
  std::vector<Optimizer*> optimizers() override { return {&optimizer_}; }
  std::vector<Unit> units() const override { return ddp_ ? units_of(table(), *ddp_) : std::vector<Unit>{}; }

 private:
  /// Returns the step counter for this engine's parameters. A step's reductions have ended before the optimizer counts
  /// it.
  week21::StepsDone steps_done() const {
    return [this] { return static_cast<std::uint64_t>(optimizer_.steps()); };
  }

  Optimizer optimizer_;
  std::unique_ptr<week21::Ddp> ddp_;  // null with one rank
};

/// Shared by stages 1 to 3.
template <class Zero>
class Sharded : public Base {
 public:
  std::vector<Slice> gradient_shares() const override { return zero_->gradient_shares(); }
  std::vector<Piece> gradient_pieces() const override { return pieces_of(gradient_shares()); }
  void step(float rate, Slice factor, Slice skip, Slice skipped) override {
    if (!gathers_) return zero_->step(rate, std::move(factor), std::move(skip), std::move(skipped));
    gathers_->finish();
    for (Optimizer& optimizer : zero_->optimizers()) optimizer.step(dp_, rate, factor, skip, skipped);
    gathers_->updated();
  }
  Hooks forward_hooks() override {
    Hooks hooks;
    if (gathers_) hooks.before_forward = [gathers = gathers_](std::size_t piece) { gathers->before_forward(piece); };
    return hooks;
  }
  Slice whole_values() override {
    if (gathers_) gathers_->finish();
    return Base::whole_values();
  }
  std::vector<Optimizer*> optimizers() override {
    std::vector<Optimizer*> all;
    for (Optimizer& optimizer : zero_->optimizers()) all.push_back(&optimizer);
    return all;
  }
  std::vector<Unit> units() const override { return wrapped_units(); }

 protected:
  using Base::Base;
  /// Returns the pieces of this rank's chunk of each unit.
  std::vector<Piece> pieces_of(const std::vector<Slice>& shares) const {
    std::vector<Piece> all;
    const std::vector<Unit> units = this->units();
    for (std::size_t u = 0; u < units.size(); ++u) {
      const ChunkRange own = units[u].shard(dp_.rank(), dp_.size());
      for (Piece& piece : split_by_kind(table(), {units[u].offset + own.offset, own.size}, shares[u]))
        all.push_back(std::move(piece));
    }
    return all;
  }
  void share(std::shared_ptr<ForwardGathers> gathers) {
    gathers_ = std::move(gathers);
    if (gathers_) gathers_->add_engine(model_.parameters.values, units(), model_.usage_order);
  }

  std::unique_ptr<Zero> zero_;
  std::shared_ptr<ForwardGathers> gathers_;  // null: zero_ gathers before main continues
};

class Zero1Engine final : public Sharded<week22::Zero1> {
 public:
  Zero1Engine(Rank dp, EngineModel model, const EngineOptions& o, std::shared_ptr<ForwardGathers> gathers)
      : Sharded(dp, std::move(model), o) {
    zero_ = week22::make_zero1(dp, model_.parameters, buckets_of(o), o.adamw);
    share(std::move(gathers));
  }
  Hooks hooks() override {
    Hooks hooks = hooks_of(zero_->ddp());
    hooks.before_forward = forward_hooks().before_forward;
    return hooks;
  }
  void finish() override { zero_->ddp().finish(); }
  void window(int microbatches, const std::function<void(int, const Hooks&)>& pass) override {
    run_ddp_window(zero_->ddp(), microbatches, hooks(), pass);
  }
  std::vector<Unit> units() const override { return units_of(table(), zero_->ddp()); }
  void step(float rate, Slice factor, Slice skip, Slice skipped) override {
    Sharded::step(rate, std::move(factor), std::move(skip), std::move(skipped));
    zero_gradients();
  }
};

class Zero2Engine final : public Sharded<week22::Zero2> {
 public:
  Zero2Engine(Rank dp, EngineModel model, const EngineOptions& o, std::shared_ptr<ForwardGathers> gathers)
      : Sharded(dp, std::move(model), o) {
    zero_ = week22::make_zero2(
        dp, model_.parameters, wrapped_units(), model_.usage_order, {.overlap = o.overlap, .adamw = o.adamw},
        [this](std::size_t i, Slice gradient) { model_.bind(i, model_.parameters.value(i), std::move(gradient)); });
    share(std::move(gathers));
  }
  Hooks hooks() override {
    Hooks hooks = forward_hooks();
    hooks.before_backward = [this](std::size_t piece) { zero_->before_backward(piece); };
    hooks.end_backward = [this] { zero_->end_backward(); };
    return hooks;
  }
  void step(float rate, Slice factor, Slice skip, Slice skipped) override {
    Sharded::step(rate, std::move(factor), std::move(skip), std::move(skipped));
    if (!gathers_) return;  // zero_ has already zeroed them
    for (const Slice& share : gradient_shares()) fill(dp_, share, 0);
  }
};

/// Shards over all of dp, or over the ranks of groups.node. In the latter case the ranks of groups.rail hold copies of
/// the same shard.
class Zero3Engine final : public Sharded<week22::Fsdp> {
 public:
  Zero3Engine(Rank dp, EngineModel model, const EngineOptions& o, const std::optional<week21::Hierarchy>& groups)
      : Sharded(groups ? groups->node : dp, std::move(model), o) {
    const week22::ShardPrecision precision{.keep = model_.storage, .compute = model_.storage, .reduce = o.reduce};
    const week22::FsdpOptions options =
        week22::with_policies({.prefetch = o.overlap ? o.prefetch : 0, .precision = precision, .adamw = o.adamw});
    const week22::ShardedModel sharded{table(), wrapped_units(), model_.usage_order, model_.begin};
    if (groups) {
      auto hybrid = week22::make_hsdp(*groups, sharded, options, model_.bind);
      hybrid_ = hybrid.get();
      hybrid_->reduce_across(o.microbatches == 1);
      zero_ = std::move(hybrid);
    } else {
      zero_ = week22::make_fsdp(dp_, sharded, options, model_.bind);
    }
  }
  Hooks hooks() override {
    Hooks hooks = forward_hooks();
    hooks.before_backward = [this](std::size_t piece) { zero_->before(week22::Pass::backward, piece); };
    hooks.end_backward = [this] { end_backward(); };
    return hooks;
  }
  Hooks forward_hooks() override {
    if (!whole_.empty()) return {};
    Hooks hooks;
    hooks.before_forward = [this](std::size_t piece) { zero_->before(week22::Pass::forward, piece); };
    hooks.end_forward = [this] { zero_->end(week22::Pass::forward); };
    return hooks;
  }
  void hold_whole_values() override {
    if (!whole_.empty()) return;
    whole_ = dp_.allocate(table().back().offset + table().back().size, model_.storage, Category::parameter);
    const std::vector<Unit> units = wrapped_units();
    const std::vector<Slice> shares = zero_->value_shares();
    for (std::size_t u = 0; u < units.size(); ++u) {
      const Slice unit = whole_.cut(units[u].offset, units[u].size);
      copy(dp_, chunk(unit, dp_.rank(), dp_.size()), shares[u]);
      week21::ring_all_gather(dp_, unit);
    }
    for (std::size_t i = 0; i < table().size(); ++i) model_.bind(i, whole_.cut(table()[i].offset, table()[i].size), {});
  }
  std::vector<Slice> value_shares() override { return zero_->value_shares(); }
  std::vector<Piece> value_pieces() override { return pieces_of(zero_->value_shares()); }
  Slice whole_values() override { return whole_; }

 private:
  /// Enables the reduction across groups for the last pass of a window only.
  void end_backward() {
    zero_->end(week22::Pass::backward);
    passes_ = (passes_ + 1) % options_.microbatches;
    if (hybrid_) hybrid_->reduce_across(passes_ + 1 == options_.microbatches);
  }

  week22::Hsdp* hybrid_ = nullptr;  // zero_, if it is an Hsdp
  int passes_ = 0;                  // passes in this window
  Slice whole_;
};

}  // namespace

week21::DdpOptions bucket_options(std::size_t bucket_bytes, bool overlap) {
  return {.bucket_bytes = bucket_bytes,
          .first_bucket_bytes = std::min<std::size_t>(bucket_bytes, std::size_t{1} << 20),
          .overlap = overlap};
}

Owns owned_by_model(int stage) {
  return stage < 2 ? Owns::values_and_gradients : stage == 2 ? Owns::values : Owns::nothing;
}

week22::Wrapping parse_wrapping(const std::string& name) {
  using Kind = week22::Wrapping::Kind;
  if (name == "model") return {Kind::whole_model};
  if (name == "block") return {Kind::each_block};
  if (name == "layer") return {Kind::each_layer};
  if (name.empty() || name.size() > 18 || name.find_first_not_of("0123456789") != std::string::npos)
    throw Error(Verdict::usage, "--wrap " + name + ": model, block, layer, or a minimum number of elements");
  return {Kind::at_least, std::stoull(name)};
}

std::unique_ptr<Engine> make_engine(Rank dp, EngineModel model, const EngineOptions& options,
                                    std::shared_ptr<ForwardGathers> gathers,
                                    const std::optional<week21::Hierarchy>& groups) {
  switch (options.zero) {
    case 0: return std::make_unique<PlainEngine>(dp, std::move(model), options);
    case 1: return std::make_unique<Zero1Engine>(dp, std::move(model), options, std::move(gathers));
    case 2: return std::make_unique<Zero2Engine>(dp, std::move(model), options, std::move(gathers));
    case 3: return std::make_unique<Zero3Engine>(dp, std::move(model), options, groups);
    default:
      usage_error("ZeRO has stages 0 (plain data parallelism), 1, 2 and 3; there is no stage " +
                  std::to_string(options.zero));
  }
}

}  // namespace lockstep::week25

#include "tools/train/engine.hpp"

#include <algorithm>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "labs/week22_zero/zero1.hpp"
#include "labs/week22_zero/zero2.hpp"

namespace lockstep::train {

namespace {

week21::DdpOptions buckets_of(const EngineOptions& o) {
  return {.bucket_bytes = o.bucket_bytes,
          .first_bucket_bytes = std::min<std::size_t>(o.bucket_bytes, std::size_t{1} << 20),
          .overlap = o.overlap};
}

std::vector<Unit> wrapped_units(const EngineOptions& o) {
  return week22::wrap(gpt_parameter_table(o.model), o.wrapping);
}

/// A window of DDP's: all passes but the last are quiet.
void run_ddp_window(week21::Ddp& ddp, int microbatches, const std::function<void(int, const Engine::Hooks&)>& pass) {
  Engine::Hooks hooks;
  hooks.ready = [&ddp](std::size_t i) { ddp.gradient_ready(i); };
  week21::run_window(ddp, microbatches, [&](int i) { pass(i, hooks); });
}

std::vector<Unit> units_of(const std::vector<Parameter>& table, const week21::Ddp& ddp) {
  std::vector<Unit> units;
  for (const week21::Bucket& bucket : ddp.buckets()) units.push_back(make_unit(table, bucket.first, bucket.count));
  return units;
}

class Stage0 final : public Engine {
 public:
  Stage0(Rank dp, const EngineOptions& o)
      : dp_(dp), gpt_(dp, o.model, o.seed), optimizer_(dp, gpt_.parameters(), o.adamw) {
    if (dp.size() == 1) return;
    ddp_ = week21::make_ddp(dp, gpt_.parameters(), buckets_of(o), [reduce = o.reduce](Rank queue, Slice gradients) {
      week22::sum_in(queue, std::move(gradients), reduce, week21::ring_all_reduce);
    });
  }

  Gpt& gpt() override { return gpt_; }
  void window(int microbatches, const std::function<void(int, const Hooks&)>& pass) override {
    if (ddp_) return run_ddp_window(*ddp_, microbatches, pass);
    for (int i = 0; i < microbatches; ++i) pass(i, {});
  }
  std::vector<Slice> gradient_shares() const override { return {gpt_.parameters().gradients}; }
  void clip(Slice factor, Slice sum, float max_norm) override {
    lockstep::clip(dp_, std::move(factor), std::move(sum), gpt_.parameters().gradients, max_norm);
  }
  void step(float rate, Slice factor, Slice skip, Slice skipped) override {
    optimizer_.step(dp_, rate, std::move(factor), std::move(skip), std::move(skipped));
    fill(dp_, gpt_.parameters().gradients, 0);
  }
  std::vector<Optimizer*> optimizers() override { return {&optimizer_}; }
  std::vector<Unit> units() const override {
    return ddp_ ? units_of(gpt_.parameters().list, *ddp_) : std::vector<Unit>{};
  }
  Slice whole_values() override { return gpt_.parameters().values; }

 private:
  Rank dp_;
  Gpt gpt_;
  Optimizer optimizer_;
  std::unique_ptr<week21::Ddp> ddp_;  // none on one rank
};

/// What stages 1 to 3 share.
template <class Zero>
class Sharded : public Engine {
 public:
  std::vector<Slice> gradient_shares() const override { return zero_->gradient_shares(); }
  void clip(Slice factor, Slice sum, float max_norm) override {
    week22::clip_shares(dp_, std::move(factor), std::move(sum), zero_->gradient_shares(), max_norm);
  }
  void step(float rate, Slice factor, Slice skip, Slice skipped) override {
    zero_->step(rate, std::move(factor), std::move(skip), std::move(skipped));
  }
  std::vector<Optimizer*> optimizers() override {
    std::vector<Optimizer*> all;
    for (Optimizer& optimizer : zero_->optimizers()) all.push_back(&optimizer);
    return all;
  }
  Gpt& gpt() override { return gpt_; }
  std::vector<Unit> units() const override { return wrapped_units(options_); }
  Slice whole_values() override { return gpt_.parameters().values; }

 protected:
  Sharded(Rank dp, const EngineOptions& o, Owns owns) : dp_(dp), options_(o), gpt_(dp, o.model, o.seed, owns) {}

  Rank dp_;
  EngineOptions options_;
  Gpt gpt_;
  std::unique_ptr<Zero> zero_;
};

class Stage1 final : public Sharded<week22::Zero1> {
 public:
  Stage1(Rank dp, const EngineOptions& o) : Sharded(dp, o, Owns::values_and_gradients) {
    zero_ = week22::make_zero1(dp, gpt_.parameters(), buckets_of(o), o.adamw);
  }
  void window(int microbatches, const std::function<void(int, const Hooks&)>& pass) override {
    run_ddp_window(zero_->ddp(), microbatches, pass);
  }
  std::vector<Unit> units() const override { return units_of(gpt_.parameters().list, zero_->ddp()); }
  void step(float rate, Slice factor, Slice skip, Slice skipped) override {
    Sharded::step(rate, std::move(factor), std::move(skip), std::move(skipped));
    fill(dp_, gpt_.parameters().gradients, 0);
  }
};

class Stage2 final : public Sharded<week22::Zero2> {
 public:
  Stage2(Rank dp, const EngineOptions& o) : Sharded(dp, o, Owns::values) {
    zero_ = week22::make_zero2(
        dp, gpt_.parameters(), wrapped_units(o), gpt_visits(o.model), {.overlap = o.overlap, .adamw = o.adamw},
        [this](std::size_t i, Slice gradient) { gpt_.bind(i, gpt_.parameters().value(i), std::move(gradient)); });
  }
  void window(int microbatches, const std::function<void(int, const Hooks&)>& pass) override {
    Hooks hooks;
    hooks.before_backward = [this](std::size_t visit) { zero_->before_backward(visit); };
    hooks.end_backward = [this] { zero_->end_backward(); };
    for (int i = 0; i < microbatches; ++i) pass(i, hooks);
  }
};

class Stage3 final : public Sharded<week22::Fsdp> {
 public:
  Stage3(Rank dp, const EngineOptions& o) : Sharded(dp, o, Owns::nothing), table_(gpt_parameter_table(o.model)) {
    const week22::ShardPrecision precision{.keep = o.model.storage, .compute = o.model.storage, .reduce = o.reduce};
    const auto begin = [this](Rank me, std::size_t i, std::size_t first, Slice part) {
      initialise_part(me, options_.model, table_[i], i, first, std::move(part), options_.seed);
    };
    zero_ = week22::make_fsdp(
        dp, {table_, wrapped_units(o), gpt_visits(o.model), begin},
        {.prefetch = o.overlap ? o.prefetch : 0, .precision = precision, .adamw = o.adamw},
        [this](std::size_t i, Slice value, Slice gradient) { gpt_.bind(i, std::move(value), std::move(gradient)); });
  }
  void window(int microbatches, const std::function<void(int, const Hooks&)>& pass) override {
    Hooks hooks = forward_hooks();
    hooks.before_backward = [this](std::size_t visit) { zero_->before(week22::Pass::backward, visit); };
    hooks.end_backward = [this] { zero_->end(week22::Pass::backward); };
    for (int i = 0; i < microbatches; ++i) pass(i, hooks);
  }
  Hooks forward_hooks() override {
    if (!whole_.empty()) return {};
    Hooks hooks;
    hooks.before_forward = [this](std::size_t visit) { zero_->before(week22::Pass::forward, visit); };
    hooks.end_forward = [this] { zero_->end(week22::Pass::forward); };
    return hooks;
  }
  void hold_whole_values() override {
    if (!whole_.empty()) return;
    whole_ = dp_.allocate(options_.model.parameters(), options_.model.storage, Category::parameter);
    const std::vector<Unit> units = wrapped_units(options_);
    const std::vector<Slice> shares = zero_->value_shares();
    for (std::size_t u = 0; u < units.size(); ++u) {
      const Slice unit = whole_.cut(units[u].offset, units[u].size);
      copy(dp_, chunk(unit, dp_.rank(), dp_.size()), shares[u]);
      week21::ring_all_gather(dp_, unit);
    }
    for (std::size_t i = 0; i < table_.size(); ++i) gpt_.bind(i, whole_.cut(table_[i].offset, table_[i].size), {});
  }
  std::vector<Slice> value_shares() override { return zero_->value_shares(); }
  Slice whole_values() override { return whole_; }

 private:
  std::vector<Parameter> table_;
  Slice whole_;
};

}  // namespace

week22::Wrapping wrapping_named(const std::string& name) {
  using Kind = week22::Wrapping::Kind;
  if (name == "model") return {Kind::whole_model};
  if (name == "block") return {Kind::each_block};
  if (name == "layer") return {Kind::each_layer};
  if (name.empty() || name.size() > 18 || name.find_first_not_of("0123456789") != std::string::npos)
    throw Error(Verdict::usage, "--wrap " + name + ": model, block, layer, or a least number of elements");
  return {Kind::at_least, std::stoull(name)};
}

std::unique_ptr<Engine> make_engine(Rank dp, const EngineOptions& options) {
  switch (options.stage) {
    case 0: return std::make_unique<Stage0>(dp, options);
    case 1: return std::make_unique<Stage1>(dp, options);
    case 2: return std::make_unique<Stage2>(dp, options);
    case 3: return std::make_unique<Stage3>(dp, options);
    default:
      usage_error("ZeRO has stages 0 (plain data parallelism), 1, 2 and 3; there is no stage " +
                  std::to_string(options.stage));
  }
}

void run_pass(Rank me, const Gpt& gpt, const Batch& batch, Activations& saved, Slice loss, float factor,
              const Engine::Hooks& hooks, Slice gradient_scale) {
  Activations part = gpt.first_sequences(saved, batch.sequences);
  gpt.forward(me, batch, part, hooks.before_forward);
  if (hooks.end_forward) hooks.end_forward();
  gpt.layers().loss(me, std::move(loss), part.logits, batch.targets, factor, std::move(gradient_scale));
  gpt.backward(me, batch, part, hooks.ready, hooks.before_backward);
  if (hooks.end_backward) hooks.end_backward();
}

}  // namespace lockstep::train

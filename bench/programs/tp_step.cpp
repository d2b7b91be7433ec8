#include "bench/programs/tp_step.hpp"

#include <memory>

#include "bench/support/price.hpp"
#include "common/gpt/model/serial.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"

namespace lockstep::bench {
namespace {

/// One rank's model and data for a forward and backward pass.
class Pass {
 public:
  Pass(Rank me, const StepShape& shape, Variant variant)
      : Pass(me, shape, variant, {me.rank(), me.size(), variant == Variant::sequence},
             variant == Variant::compute ? me.split(me.rank(), 0) : me) {}

  /// With the part `part` of the layers, summed over `group`; with a group of one, no sums.
  Pass(Rank me, const StepShape& shape, Variant variant, TensorShard part, Rank group)
      : me_(me), gpt_(me, config_of(shape.model, part), /*seed=*/1) {
    const bool alone = group.size() != part.ranks;
    const bool overlap = variant == Variant::overlapped || variant == Variant::sequence;
    const week23::TensorParallel tp = week23::make_tensor_parallel(group, overlap);
    const std::size_t vocabulary = alone ? gpt_.config().own_vocabulary() : shape.model.vocabulary;
    gpt_.use(variant == Variant::sequence ? week23::make_sequence_layers(tp, vocabulary)
                                          : week23::make_tensor_layers(tp, vocabulary));
    saved_ = gpt_.allocate_activations(me, shape.sequences, shape.length);
    loss_ = me.allocate(1, DType::f32, Category::buffer);
    fill(me, loss_, 0);
    batch_ = counted_batch(me, 0, shape.sequences, shape.length, vocabulary);
    if (variant == Variant::sequence)
      finish_ = [this, tp] { week23::sum_norm_gradients(tp, week23::norm_gradients(gpt_.parameters())); };
  }

  void act() {
    const float factor = 1 / static_cast<float>(batch_.rows());
    accumulate_gradients(me_, gpt_, std::span(&batch_, 1), saved_, loss_, factor);
    if (finish_) finish_();
  }

 private:
  static GptConfig config_of(GptConfig config, TensorShard part) {
    config.tensor = part;
    return config;
  }

  Rank me_;
  Gpt gpt_;
  Activations saved_;
  Batch batch_;
  Slice loss_;
  std::function<void()> finish_;
};

}  // namespace

Contender tp_contender(const StepShape& shape, Variant variant, double predicted) {
  return {.name = name_of(variant),
          .prepare =
              [=](Rank me, Purpose) {
                auto pass = std::make_shared<Pass>(me, shape, variant);
                return Prepared{.act = [pass] { pass->act(); }, .right = {}};
              },
          .predicted_seconds = predicted};
}

Outcome run_pass(const RunOptions& options, const StepShape& shape, Variant variant) {
  Outcome outcome = run(options, [&](Rank me) -> Values {
    Slice token = me.allocate(1, DType::f32, Category::buffer), received = me.allocate(1, DType::f32, Category::buffer);
    fill(me, token, 0);
    Pass pass(me, shape, variant);
    barrier(me, token, received);
    const double begin = me.now();
    pass.act();
    return {me.now() - begin};
  });
  outcome.check();
  return outcome;
}

double pass_seconds(const Outcome& outcome) { return slowest(outcome, 0); }

double priced_compute(const Machine& machine, const StepShape& shape, int ranks) {
  return priced_seconds(machine, [&](Rank me) {
    auto pass = std::make_shared<Pass>(me, shape, Variant::compute, TensorShard{0, ranks}, me);
    return [pass] { pass->act(); };
  });
}

double priced_beside(const Machine& machine, const StepShape& shape, int ranks, const std::string& place) {
  GptConfig own = shape.model;
  own.tensor = {0, ranks};
  const std::size_t rows = shape.tokens(), channels = own.d_model;
  const std::size_t width = channels / static_cast<std::size_t>(ranks);
  const bool head = place == "head backward";
  const std::size_t outputs = head                            ? own.own_vocabulary()
                              : place == "attention backward" ? 3 * width
                              : place == "mlp backward"       ? 4 * width
                                                              : 0;
  if (outputs == 0) return 0;
  return priced_seconds(machine, [&](Rank me) {
    const auto slice = [&](std::size_t size) { return me.allocate(size, own.storage, Category::buffer); };
    Slice dweight = slice(outputs * channels), dbias = head ? Slice() : slice(outputs);
    Slice dy = slice(rows * outputs), x = slice(rows * channels);
    return [=] { linear_backward_weight(me, dweight, dbias, dy, x, rows); };
  });
}

}  // namespace lockstep::bench

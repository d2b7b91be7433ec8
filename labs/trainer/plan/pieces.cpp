#include "labs/trainer/plan/pieces.hpp"

#include <algorithm>
#include <cmath>

#include "common/gpt/model/stage.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week22_zero/checkpointing.hpp"
#include "labs/week23_tensor_parallel/context_layers.hpp"
#include "labs/week23_tensor_parallel/sequence_layers.hpp"

namespace lockstep::plan {

namespace {

double number(std::size_t n) { return static_cast<double>(n); }

template <class F>
Cost cost_of(const DryRun& dry_run, const F& f) {
  const double seconds = dry_run.seconds(), arithmetic = dry_run.arithmetic();
  f();
  Cost cost{dry_run.seconds() - seconds, 0};
  cost.waiting = cost.seconds - (dry_run.arithmetic() - arithmetic);
  return cost;
}

/// Base's layers without the MLP, for a mixture, whose experts add_experts prices.
template <class Base>
class NoMlp final : public Base {
 public:
  using Base::Base;
  void mlp_forward(Rank, const BlockShape&, const BlockTensors&, BlockActivations&, Slice) const override {}
  void mlp_backward(Rank, const BlockShape&, const BlockTensors&, const BlockTensors&, const BlockActivations&,
                    BackwardScratch&, Slice, Slice, const BlockPartReady&) const override {}
};

/// A model of one block on rank 0 of the tensor-parallel group and of `sharers`, and one microbatch of its tokens; this
/// rank has `length` tokens of each sequence.
class OneBlock {
 public:
  OneBlock(Rank me, Rank sharers, const GptConfig& config, std::size_t sequences, std::size_t length,
           const PriceOptions& options)
      : me_(me), gpt_(me, config, /*seed=*/1) {
    const week23::TensorParallel tp = week23::make_tensor_parallel(me, options.overlap);
    std::shared_ptr<const Layers> layers = std::make_shared<Layers>();
    if (me.size() > 1) layers = week25::make_layers(tp, config, options.overlap_scatter);
    if (const bool mixture = config.architecture.experts > 0; mixture && me.size() == 1)
      layers = std::make_shared<NoMlp<Layers>>();
    else if (mixture)
      layers = std::make_shared<NoMlp<week23::SequenceLayers>>(
          tp, config.vocabulary,
          options.overlap_scatter ? week23::column_backward_behind : week23::column_backward_rows);
    if (sharers.size() > 1) layers = std::make_shared<week23::ContextLayers>(sharers, tp, layers);
    gpt_.use(layers);
    saved_ = gpt_.allocate_activations(me, sequences, length);
    const auto integers = [&] { return me_.allocate(sequences * length, DType::i32, Category::buffer); };
    batch_ = {integers(), integers(), sequences, length};
    loss_ = me_.allocate(1, DType::f32, Category::buffer);
  }

  Pieces price(DryRun& dry_run, bool stops_early) {
    Pieces pieces;
    pieces.embed = cost_of(dry_run, [&] { gpt_.embed(me_, batch_, saved_); });
    pieces.block = cost_of(dry_run, [&] { gpt_.forward_block(me_, 0, saved_); });
    pieces.head = cost_of(dry_run, [&] {
      gpt_.forward_head(me_, saved_);
      gpt_.layers().loss(me_, loss_, saved_.logits, batch_.targets, 1, {});
    });
    dry_run.forget_peak();
    const std::size_t before = dry_run.live_bytes();
    pieces.head_back = cost_of(dry_run, [&] { gpt_.backward_head(me_, saved_, {}); });
    pieces.block_back = cost_of(dry_run, [&] { gpt_.backward_block(me_, 0, saved_, {}); });
    pieces.scratch_bytes = number(dry_run.peak_bytes() - before);
    pieces.embed_back = cost_of(dry_run, [&] { gpt_.backward_embed(me_, batch_, saved_, {}); });
    pieces.probabilities = cost_of(dry_run, [&] { week22::restore_probabilities(me_, gpt_, 0, saved_); }).seconds;
    pieces.rebuilt = pieces.block.seconds;
    if (stops_early) pieces.rebuilt = cost_of(dry_run, [&] { gpt_.rebuild_block(me_, 0, saved_); }).seconds;
    const Slice gradient = me_.allocate(saved_.residual_gradient.size(), saved_.output.dtype(), Category::activation);
    pieces.copy = cost_of(dry_run, [&] { copy(me_, saved_.residual_gradient, gradient); }).seconds;
    return pieces;
  }

 private:
  Rank me_;
  Gpt gpt_;
  Activations saved_;
  Batch batch_;
  Slice loss_;
};

/// The halves of a backward of a whole model of `layers` blocks on one rank, a pipeline of one stage: their seconds,
/// and the bytes kept between them.
struct Halves {
  double inputs = 0, weights = 0, bytes = 0;
};
Halves halves_of(const Machine& machine, GptConfig config, std::size_t layers, std::size_t sequences,
                 std::size_t length) {
  DryRun dry_run(machine);
  Rank me = dry_run.rank();
  config.layers = layers;
  const auto integers = [&] { return me.allocate(sequences * length, DType::i32, Category::buffer); };
  const Batch batch{integers(), integers(), sequences, length};
  GptStage stage(me, {}, config, {0, layers + 2}, {batch}, 1, /*seed=*/1);
  stage.forward(0, 0, {}, {});
  const double before = number(dry_run.live_bytes());
  Halves halves;
  halves.inputs = cost_of(dry_run, [&] { stage.backward(Work::input_gradient, 0, 0, {}, {}); }).seconds;
  halves.bytes = number(dry_run.live_bytes()) - before;
  halves.weights = cost_of(dry_run, [&] { stage.backward(Work::weight_gradient, 0, 0, {}, {}); }).seconds;
  return halves;
}

void price_halves(const Machine& machine, const GptConfig& config, std::size_t sequences, std::size_t length,
                  Pieces& pieces) {
  const Halves one = halves_of(machine, config, 1, sequences, length);
  const Halves two = halves_of(machine, config, 2, sequences, length);
  pieces.block_inputs = two.inputs - one.inputs;
  pieces.block_weights = two.weights - one.weights;
  pieces.later_bytes = two.bytes - one.bytes;
  pieces.head_inputs = one.inputs - pieces.block_inputs - pieces.embed_back.seconds;
  pieces.head_weights = one.weights - pieces.block_weights;
}

void count_parameters(const GptConfig& config, Pieces& pieces) {
  const std::vector<Parameter> table = gpt_parameter_table(config);
  const auto usage_order = gpt_usage_order(config);
  const auto size = [&](std::size_t piece) {
    double sum = 0;
    for (const std::size_t tensor : usage_order[piece])
      if (mixture_part(table[tensor]) != MixturePart::expert) sum += number(table[tensor].size);
    return sum;
  };
  if (config.architecture.experts > 0)
    pieces.expert_parameters = number(config.own_experts() * config.expert_parameters());
  pieces.embed_parameters = size(0);
  pieces.block_parameters = size(1);
  pieces.head_parameters = size(2);
  for (const Parameter& tensor : table)
    if (tensor.name.starts_with("blocks."))
      pieces.largest_parameters = std::max(pieces.largest_parameters, number(tensor.size));
  std::size_t layer = 0;
  for (const std::size_t width : {config.qkv_width(), config.d_model, config.up_width(), config.mlp_width()})
    pieces.layer_shares.at(layer++) = number(width) / (number(config.block_matrices()) / number(config.d_model));
  pieces.tied_parameters = config.tied_head ? number(table[0].size) : 0;
}

void count_bytes(GptConfig config, std::size_t sequences, std::size_t length, Pieces& pieces) {
  const auto bytes = [&](std::size_t layers) {
    config.layers = layers;
    return number(activation_bytes(config, sequences, length));
  };
  const std::size_t rows = sequences * length, ranks = static_cast<std::size_t>(config.tensor.ranks);
  const std::size_t norm_rows = config.tensor.sequence_parallel ? rows / ranks : rows;
  const double element = number(bytes_of(config.storage));
  pieces.boundary_bytes = number(norm_rows * config.d_model) * element;
  pieces.block_bytes = bytes(2) - bytes(1);
  if (config.attention == AttentionKind::materialised)
    pieces.probabilities_bytes = number(rows * (config.heads / ranks) * length) * element;
  const double workspace =
      (2 * number(norm_rows * config.d_model) + number(config.scratch_width() * rows / ranks)) * element;
  pieces.head_bytes = bytes(1) - pieces.block_bytes - workspace;
  pieces.scratch_bytes += workspace;
}

/// Adds a block's mixture on the busiest rank, for a microbatch of `tokens`: products, passes over rows, all-to-alls.
void add_experts(const Machine& machine, const GptConfig& config, const week25::Strategy& strategy, std::size_t tokens,
                 double imbalance, Pieces& pieces) {
  const std::size_t n = tokens / static_cast<std::size_t>(strategy.tp), c = config.d_model, own = config.own_experts();
  const std::size_t up = config.up_width(), down = config.mlp_width(), experts = config.architecture.experts;
  const double element = number(bytes_of(config.storage)), row = number(c) * element;
  const double slots = number(config.architecture.top_k * n), rows = imbalance * slots;
  const auto each = static_cast<std::size_t>(std::ceil(rows / number(own)));  // rows of an expert
  const auto pass = [&](double bytes) { return machine.seconds({.name = "rows", .bytes = bytes}); };
  const auto product = [&](std::size_t p, std::size_t q, std::size_t r, double sum = 0) {
    const double bytes = number(p * q + p * r + q * r) * element + sum * number(p * q);
    return machine.seconds({"matmul", 2 * number(p * q) * number(r), bytes, config.storage, {}, {}, true, {p, q, r}});
  };
  // Rows are taken by expert, sorted where they arrive for several experts, and likewise on the way back, to be summed.
  const double ways =
      pass(2 * slots * row) + (own > 1 ? 2 * pass(2 * rows * row) : 0) + pass((slots + number(n)) * row);
  const double exchange = 2 * all_to_all_seconds(machine, strategy.ep, rows * row);
  const auto expert = [&](double seconds) {
    return number(own) * (seconds + pass(number(each * (up + down)) * element));
  };
  const double forward = product(n, experts, c) + expert(product(each, up, c) + product(each, c, down));
  const double sum = 2.0 * number(bytes_of(config.gradients())) - element;  // a gradient is read and written
  const double backward = product(experts, c, n, sum) + product(n, c, experts) + pass(slots * row) +
                          expert(product(c, down, each, sum) + product(each, down, c) +
                                 pass(number(each * up) * element) + product(up, c, each, sum) + product(each, c, up));
  for (double* seconds : {&pieces.block.seconds, &pieces.rebuilt}) *seconds += forward + ways + exchange;
  pieces.block_back.seconds += backward + ways + exchange;
  for (Cost* cost : {&pieces.block, &pieces.block_back}) cost->waiting += exchange;
  pieces.block_bytes += mixture_bytes(config, n, imbalance);
  pieces.scratch_bytes += 2 * rows * row + number(each * (up + down)) * element;
}

/// Keeps, and does not recompute, attention and every other product of a Llama block (q of q, k, v; v; gate of gate,
/// up; the last): torchtitan's selective checkpointing of operations, of which the last is skipped by `stops_early`.
void keep_products(const Machine& machine, const GptConfig& config, double rows, std::size_t length, Pieces& pieces) {
  const double ranks = config.tensor.ranks, d = number(config.d_model), tokens = number(length);
  const double v = (number(config.qkv_width()) - d) / 2, gate = number(config.up_width()) / 2;
  const double element = number(bytes_of(config.storage));
  for (const double width : {d / ranks, v / ranks, gate / ranks}) {
    const auto size = [](double n) { return static_cast<std::size_t>(n); };
    pieces.rebuilt -= machine.seconds({.name = "matmul",
                                       .flop = 2 * rows * width * d,
                                       .bytes = element * (rows * d + width * d + rows * width),
                                       .dtype = config.storage,
                                       .matmul = true,
                                       .mnk = {size(rows), size(width), size(d)}});
    pieces.kept_bytes += element * rows * width;
  }
  pieces.rebuilt -= machine.seconds({.name = "attention",
                                     .flop = 2 * rows * (tokens + 1) * d / ranks,
                                     .dtype = config.storage,
                                     .matmul = true,
                                     .mnk = {length, length, config.d_model / config.heads}});
  pieces.kept_bytes += element * rows * (d / ranks + (config.tensor.sequence_parallel ? d / ranks : d));
}

}  // namespace

Pieces price_pieces(const GptConfig& model, const Machine& machine, std::size_t tokens,
                    const week25::Strategy& strategy, const week21::CostModel& links, const week21::CostModel& round,
                    const PriceOptions& options) {
  GptConfig config = model;
  config.layers = 1;
  config.tensor = {0, strategy.tp, strategy.sequence_parallel};
  config.expert_ranks = strategy.ep;
  const auto sequences = static_cast<std::size_t>(strategy.microbatch);
  const std::size_t length = tokens / static_cast<std::size_t>(strategy.cp);
  const bool mixture = config.architecture.experts > 0;
  const auto price = [&](const Machine& machine) {
    DryRun dry_run(machine, {strategy.tp, links.alpha, links.beta});
    const Rank sharers = dry_run.rank({.ranks = strategy.cp, .alpha = round.alpha, .beta = round.beta});
    Pieces pieces =
        OneBlock(dry_run.rank(), sharers, config, sequences, length, options).price(dry_run, options.stops_early);
    if (strategy.tp == 1 && strategy.cp == 1 && !mixture) price_halves(machine, config, sequences, length, pieces);
    return pieces;
  };
  Pieces pieces = price(machine);
  if (machine.library && machine.library->fp8) {
    Machine wide = machine;
    wide.library->fp8 = false;
    const Pieces head = price(wide);  // stays in 16 bits
    pieces.head = head.head, pieces.head_back = head.head_back;
    pieces.head_inputs = head.head_inputs, pieces.head_weights = head.head_weights;
  }
  add_unfused(machine, options.unfused, config, number(sequences * length), pieces);
  if (options.keeps_products) keep_products(machine, config, number(sequences * length), length, pieces);
  count_parameters(config, pieces);
  count_bytes(config, sequences, length, pieces);
  if (mixture) add_experts(machine, config, strategy, sequences * length, options.imbalance, pieces);
  return pieces;
}

}  // namespace lockstep::plan

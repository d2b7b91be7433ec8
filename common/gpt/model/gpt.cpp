#include "common/gpt/model/gpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

struct TableMaker {
  const Architecture& architecture;
  std::vector<Parameter> table{};
  std::size_t offset = 0;

  void tensor(std::string name, std::size_t rows, std::size_t columns, bool cut = false) {
    table.push_back({std::move(name), offset, rows * columns, rows, columns, cut});
    offset += rows * columns;
  }
  void layer(const std::string& name, std::size_t out, std::size_t in, bool cut, bool bias_too) {
    tensor(name + ".weight", out, in, cut);
    if (architecture.biases) tensor(name + ".bias", 1, out, cut && bias_too);
  }
  void norm(const std::string& name, std::size_t channels) {
    tensor(name + ".weight", 1, channels);
    if (architecture.norm == NormKind::layer_norm) tensor(name + ".bias", 1, channels);
  }
};

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void call(const std::function<void(std::size_t)>& hook, std::size_t index) {
  if (hook) hook(index);
}

}  // namespace

std::vector<Parameter> gpt_parameter_table(const GptConfig& config) {
  const bool cut = config.tensor.ranks > 1;
  const std::size_t c = config.d_model, p = static_cast<std::size_t>(config.tensor.ranks);
  TableMaker maker{config.architecture};
  maker.tensor("token_embedding", config.own_vocabulary(), c, cut);
  if (config.architecture.positions == PositionKind::learned) maker.tensor("position_embedding", config.context, c);
  for (std::size_t l = 0; l < config.layers; ++l) {
    const std::string block = fmt::format("blocks.{}.", l);
    maker.norm(block + "norm1", c);
    maker.layer(block + "qkv", config.qkv_width() / p, c, cut, true);
    maker.layer(block + "projection", c, c / p, cut, false);
    maker.norm(block + "norm2", c);
    if (const std::size_t experts = config.own_experts(); config.architecture.experts > 0) {
      maker.tensor(block + "router.weight", config.architecture.experts, c);
      maker.tensor(block + "experts.up.weight", experts * config.up_width(), c, config.expert_ranks > 1);
      maker.tensor(block + "experts.down.weight", experts * c, config.mlp_width(), config.expert_ranks > 1);
      continue;
    }
    maker.layer(block + "up", config.up_width() / p, c, cut, true);
    maker.layer(block + "down", c, config.mlp_width() / p, cut, false);
  }
  maker.norm("norm", c);
  if (!config.tied_head) maker.tensor("head", config.own_vocabulary(), c, cut);
  return maker.table;
}

MixturePart mixture_part(const Parameter& tensor) {
  if (tensor.name.find(".experts.") != std::string::npos) return MixturePart::expert;
  return tensor.name.find(".router.") != std::string::npos ? MixturePart::router : MixturePart::none;
}

UsageOrder gpt_usage_order(const GptConfig& config) {
  const bool learned = config.architecture.positions == PositionKind::learned;
  UsageOrder usage_order{learned ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{0}};
  std::size_t next = learned ? 2 : 1;
  const std::size_t parts = block_parts(config.architecture).size();
  for (std::size_t l = 0; l < config.layers; ++l) {
    std::vector<std::size_t>& block = usage_order.emplace_back(parts);
    for (std::size_t& tensor : block) tensor = next++;
  }
  std::vector<std::size_t>& head = usage_order.emplace_back();
  head.push_back(next++);
  if (config.architecture.norm == NormKind::layer_norm) head.push_back(next++);
  head.push_back(config.tied_head ? 0 : next);
  return usage_order;
}

namespace {

/// Returns rank `rank`'s part of each block of rows that a tensor is made of. `sizes`: the rank's elements of each
/// block.
std::vector<TensorRun> runs_of_heaps(const std::vector<std::size_t>& sizes, std::size_t rank, std::size_t ranks) {
  std::vector<TensorRun> runs;
  std::size_t own = 0;
  for (const std::size_t size : sizes) {
    runs.push_back({own, own * ranks + rank * size, size});
    own += size;
  }
  return runs;
}

}  // namespace

std::vector<TensorRun> tensor_runs(const GptConfig& config, const Parameter& tensor) {
  if (!tensor.cut) return {{0, 0, tensor.size}};
  if (mixture_part(tensor) == MixturePart::expert)
    return {{0, static_cast<std::size_t>(config.expert_rank) * tensor.size, tensor.size}};
  if (config.tensor.cut) return config.tensor.cut(config, tensor);
  const std::size_t rank = static_cast<std::size_t>(config.tensor.rank);
  const std::string& name = tensor.name;
  const auto ranks = static_cast<std::size_t>(config.tensor.ranks);
  if (name.find(".qkv.") != name.npos) {  // this rank's heads of q, of k and of v
    const std::size_t kv = config.architecture.key_value_heads(config.heads);
    const std::size_t heads = config.heads + 2 * kv, keys = tensor.size * kv / heads;
    return runs_of_heaps({tensor.size - 2 * keys, keys, keys}, rank, ranks);
  }
  if (name.find(".projection.") != name.npos || name.find(".down.") != name.npos) {  // columns
    const std::size_t own = tensor.columns, whole = own * static_cast<std::size_t>(config.tensor.ranks);
    std::vector<TensorRun> runs;
    for (std::size_t row = 0; row < tensor.rows; ++row) runs.push_back({row * own, row * whole + rank * own, own});
    return runs;
  }
  if (name.find(".up.") != name.npos) {
    if (config.architecture.mlp == MlpKind::gelu) return runs_of_heaps({tensor.size}, rank, ranks);
    return runs_of_heaps({tensor.size / 2, tensor.size / 2}, rank, ranks);
  }
  const std::size_t first = std::min(config.vocabulary, rank * tensor.rows);  // the vocabulary, sharded by tokens
  const std::size_t real = std::min(config.vocabulary - first, tensor.rows) * tensor.columns;
  std::vector<TensorRun> runs;
  if (real > 0) runs.push_back({0, first * tensor.columns, real});
  if (real < tensor.size) runs.push_back({real, TensorRun::kPadding, tensor.size - real});
  return runs;
}

void initialise_part(Rank me, const GptConfig& config, const Parameter& tensor, std::size_t index, std::size_t first,
                     Slice part, std::uint64_t seed) {
  const float deviation = 1 / std::sqrt(3.0f * static_cast<float>(config.d_model));
  const float residual = deviation / std::sqrt(2.0f * static_cast<float>(config.layers));
  const std::string& name = tensor.name;
  const bool writes_residual = ends_with(name, "projection.weight") || ends_with(name, "down.weight");
  if (ends_with(name, ".bias")) return fill(me, part, 0);
  if (name.find("norm") != name.npos) return fill(me, part, 1);
  // A phantom run draws nothing. Its one operation stands for those of all runs: of a large model's columns, millions.
  const std::vector<TensorRun> whole{{0, 0, tensor.size}};
  for (const TensorRun& run : part.data() ? tensor_runs(config, tensor) : whole) {
    const std::size_t begin = std::max(first, run.own), end = std::min(first + part.size(), run.own + run.size);
    if (begin >= end) continue;
    const Slice here = part.cut(begin - first, end - begin);
    if (run.serial == TensorRun::kPadding)
      fill(me, here, 0);
    else
      random_normal(me, here, {.seed = seed, .tensor = index, .first = run.serial + begin - run.own}, 0,
                    writes_residual ? residual : deviation);
  }
}

Gpt::Gpt(Rank me, const GptConfig& config, std::uint64_t seed, Owns owns) : config_(config) {
  config.check();
  parameters_.list = gpt_parameter_table(config);
  parts_ = block_parts(config.architecture);
  place_of_part_.fill(BlockPart::count);
  for (std::size_t i = 0; i < parts_.size(); ++i) place_of_part_[parts_[i]] = i;
  values_.resize(parameters_.list.size());
  gradients_.resize(parameters_.list.size());
  block_values_.resize(config.layers);
  block_gradients_.resize(config.layers);
  if (owns == Owns::nothing) return;
  const bool both = owns == Owns::values_and_gradients;
  parameters_.values = me.allocate(config.parameters(), config.storage, Category::parameter);
  if (both) parameters_.gradients = me.allocate(config.parameters(), config.gradients(), Category::gradient);
  for (std::size_t i = 0; i < parameters_.list.size(); ++i) {
    bind(i, parameters_.value(i), both ? parameters_.gradient(i) : Slice{});
    initialise_part(me, config, parameters_.list[i], i, 0, values_[i], seed);
  }
  if (both) fill(me, parameters_.gradients, 0);
}

void Gpt::bind(std::size_t index, Slice value, Slice gradient) {
  values_.at(index) = value;
  gradients_.at(index) = gradient;
  if (index < block_index(0) || index >= norm_index()) return;
  const std::size_t layer = (index - block_index(0)) / parts_.size();
  const std::size_t part = parts_[(index - block_index(0)) % parts_.size()];
  block_values_[layer][part] = std::move(value);
  block_gradients_[layer][part] = std::move(gradient);
}

Activations Gpt::allocate_activations(Rank me, std::size_t sequences, std::size_t length) const {
  std::vector<BlockActivations> blocks;
  for (std::size_t l = 0; l < config_.layers; ++l)
    blocks.push_back(allocate_block_activations(me, block_shape(sequences, length), config_.storage));
  return allocate_activations(me, sequences, length, std::move(blocks));
}

Activations Gpt::allocate_activations(Rank me, std::size_t sequences, std::size_t length,
                                      std::vector<BlockActivations> blocks) const {
  if (sequences == 0 || length == 0 || length > config_.context)
    usage_error(fmt::format("a microbatch of {} sequences of {} tokens, with a context of {}", sequences, length,
                            config_.context));
  const BlockShape shape = block_shape(sequences, length);
  if (config_.tensor.sequence_parallel && shape.rows() % static_cast<std::size_t>(config_.tensor.ranks) != 0)
    usage_error(fmt::format("sequence parallelism: a microbatch of {} × {} = {} tokens does not divide over {} ranks",
                            sequences, length, shape.rows(), config_.tensor.ranks));
  const std::size_t rows = shape.rows(), narrow = shape.norm_rows() * config_.d_model;
  auto values = [&](std::size_t count) { return me.allocate(count, config_.storage, Category::activation); };
  Activations saved;
  saved.sequences = sequences;
  saved.length = length;
  saved.blocks = std::move(blocks);
  saved.output = values(narrow);
  saved.norm = values(narrow);
  saved.norm_statistics = me.allocate(shape.statistics(), DType::f32, Category::activation);
  saved.logits = values(rows * config_.own_vocabulary());
  saved.residual_gradient = values(narrow);
  saved.scratch = {values(narrow), values(rows * shape.scratch_width())};
  return saved;
}

Activations Gpt::first_sequences(const Activations& saved, std::size_t sequences) const {
  if (sequences == saved.sequences) return saved;
  const auto part = [&](const Slice& whole) { return whole.cut(0, whole.size() / saved.sequences * sequences); };
  Activations cut;
  cut.sequences = sequences;
  cut.length = saved.length;
  for (const BlockActivations& block : saved.blocks)
    cut.blocks.push_back({part(block.input), part(block.norm1), part(block.norm1_statistics), part(block.qkv),
                          part(block.attention), part(block.attention_statistics), part(block.probabilities),
                          part(block.residual), part(block.norm2), part(block.norm2_statistics), part(block.up),
                          part(block.gelu)});
  cut.output = part(saved.output);
  cut.norm = part(saved.norm);
  cut.norm_statistics = part(saved.norm_statistics);
  cut.logits = part(saved.logits);
  cut.residual_gradient = part(saved.residual_gradient);
  cut.scratch = {part(saved.scratch.narrow), part(saved.scratch.wide)};
  cut.restore = saved.restore;
  return cut;
}

void Gpt::forward(Rank me, const Batch& batch, Activations& saved, const BeforePiece& before) const {
  auto phase = me.region("forward");
  call(before, 0);
  embed(me, batch, saved);
  for (std::size_t l = 0; l < config_.layers; ++l) {
    call(before, l + 1);
    forward_block(me, l, saved);
  }
  call(before, config_.layers + 1);
  forward_head(me, saved);
}

void Gpt::backward(Rank me, const Batch& batch, Activations& saved, const GradientReady& ready,
                   const BeforePiece& before) const {
  auto phase = me.region("backward");
  call(before, config_.layers + 1);
  backward_head(me, saved, ready);
  for (std::size_t l = config_.layers; l-- > 0;) {
    call(before, l + 1);
    backward_block(me, l, saved, ready);
  }
  call(before, 0);
  backward_embed(me, batch, saved, ready);
}

void Gpt::embed(Rank me, const Batch& batch, Activations& saved) const {
  if (batch.sequences != saved.sequences || batch.length != saved.length)
    usage_error(fmt::format("a batch of {} × {} tokens with activations for {} × {}", batch.sequences, batch.length,
                            saved.sequences, saved.length));
  const Slice& y = saved.blocks.front().input;
  layers_->embed(me, y, batch.tokens, values_[0], at(values_, 1, learned_positions()), batch.length);
  if (const BlockDropout drop = dropout_of(me, 0, saved)) drop(Dropped::embedding, y, y);
}

BlockDropout Gpt::dropout_of(Rank me, std::size_t layer, const Activations& saved) const {
  if (!dropout_ || saved.microbatch < 0) return {};
  return [this, me, layer, microbatch = saved.microbatch](Dropped output, Slice y, Slice x) {
    dropout_(me, microbatch, layer, output, std::move(y), std::move(x));
  };
}

void Gpt::forward_block(Rank me, std::size_t layer, Activations& saved) const {
  const Slice& y = layer + 1 < config_.layers ? saved.blocks[layer + 1].input : saved.output;
  block_forward(me, *layers_, block_shape(saved), block_values_[layer], saved.blocks[layer], y,
                dropout_of(me, layer, saved));
}

void Gpt::rebuild_block(Rank me, std::size_t layer, Activations& saved) const {
  block_forward(me, *layers_, block_shape(saved), block_values_[layer], saved.blocks[layer], {},
                dropout_of(me, layer, saved));
}

void Gpt::forward_head(Rank me, Activations& saved) const {
  const std::size_t norm = norm_index();
  block_norm(me, block_shape(saved), saved.norm, saved.norm_statistics, saved.output, values_[norm],
             at(values_, norm + 1, norm_bias()));
  layers_->logits(me, saved.logits, saved.norm, values_[head_index()], saved.sequences * saved.length);
}

void Gpt::backward_head(Rank me, Activations& saved, const GradientReady& ready) const {
  const std::size_t rows = saved.sequences * saved.length, norm = norm_index(), head = head_index();
  const Slice dx = saved.scratch.narrow.cut(0, saved.norm.size());
  layers_->logits_backward(me, dx, gradients_[head], saved.logits, saved.norm, values_[head], rows);
  if (!config_.tied_head) call(ready, head);
  block_norm_backward(me, block_shape(saved), saved.residual_gradient, gradients_[norm],
                      at(gradients_, norm + 1, norm_bias()), dx, saved.output, values_[norm], saved.norm_statistics,
                      Into::overwrite);
  if (norm_bias()) call(ready, norm + 1);
  call(ready, norm);
}

void Gpt::backward_block(Rank me, std::size_t layer, Activations& saved, const GradientReady& ready) const {
  if (saved.restore) {
    auto phase = me.region("recompute");
    saved.restore(me, *this, layer, saved);
  }
  const auto part_ready = [&](BlockPart::Index part) {
    const std::size_t place = place_of_part_[part];
    if (place != BlockPart::count) call(ready, block_index(layer) + place);
  };
  block_backward(me, *layers_, block_shape(saved), block_values_[layer], block_gradients_[layer], saved.blocks[layer],
                 saved.scratch, saved.residual_gradient, part_ready, dropout_of(me, layer, saved));
}

void Gpt::backward_embed(Rank me, const Batch& batch, Activations& saved, const GradientReady& ready) const {
  const Slice& dy = saved.residual_gradient;
  if (const BlockDropout drop = dropout_of(me, 0, saved)) drop(Dropped::embedding, dy, dy);
  layers_->embed_backward(me, gradients_[0], at(gradients_, 1, learned_positions()), dy, batch.tokens, batch.length);
  if (learned_positions()) call(ready, 1);
  call(ready, 0);
}

}  // namespace lockstep

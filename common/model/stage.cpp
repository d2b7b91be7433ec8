#include "common/model/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lockstep {

/// Layers whose weights' gradients can wait: from `begin` to `end` they are noted down, with copies of what the
/// backward pass overwrites, and not computed.
class SplitLayers final : public Layers {
 public:
  using Key = std::pair<int, int>;  // microbatch and chunk
  void begin(Key key) { notes_ = &later_[key]; }
  void end() { notes_ = nullptr; }
  void compute(Rank me, Key key) {
    for (const Note& note : later_.at(key))
      linear_backward_weight(me, note.dweight, note.dbias, note.dy, note.x, note.rows);
    later_.erase(key);
  }

  void weight_gradient(Rank me, Slice dweight, Slice dbias, Slice dy, Slice x, std::size_t rows) const override {
    if (!notes_) return Layers::weight_gradient(me, dweight, dbias, dy, x, rows);
    const Slice kept = me.allocate(dy.size(), dy.dtype(), Category::activation);
    copy(me, kept, dy);
    notes_->push_back({dweight, dbias, kept, x, rows});
  }
  void logits_backward(Rank me, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                       std::size_t rows) const override {
    if (!notes_) return Layers::logits_backward(me, dx, dhead, dlogits, x, head, rows);
    notes_->push_back({dhead, {}, dlogits, x, rows});  // this microbatch's own, which nobody overwrites
    linear_backward_input(me, dx, dlogits, head, rows);
  }

 private:
  struct Note {
    Slice dweight, dbias, dy, x;
    std::size_t rows = 0;
  };
  std::map<Key, std::vector<Note>> later_;
  std::vector<Note>* notes_ = nullptr;
};

std::vector<double> gpt_piece_costs(const GptConfig& config, std::size_t length) {
  const auto c = static_cast<double>(config.d_model), t = static_cast<double>(length);
  std::vector<double> costs(config.layers + 2, 24 * c * c + 2 * t * c);  // matrices; half of 4·T·C by the causal mask
  costs.front() = 2 * c;
  costs.back() = 2 * c * static_cast<double>(config.vocabulary);
  return costs;
}

GptStage::GptStage(Rank group, PipelineShape shape, const GptConfig& config, std::vector<std::size_t> first,
                   std::vector<Batch> batches, float factor, std::uint64_t seed)
    : me_(group),
      shape_(shape),
      first_(std::move(first)),
      batches_(std::move(batches)),
      factor_(factor),
      gpt_(group, config, seed, Owns::nothing),
      layers_(std::make_shared<SplitLayers>()) {
  const auto parts = static_cast<std::size_t>(shape.stages) * static_cast<std::size_t>(shape.chunks);
  if (shape.stages != group.size() || first_.size() != parts + 1 || first_.front() != 0 ||
      first_.back() != config.layers + 2 ||
      std::adjacent_find(first_.begin(), first_.end(), std::greater_equal<>()) != first_.end())
    usage_error(
        fmt::format("{} stages of {} chunks need as many parts of the {} pieces of the model, each at least one",
                    shape.stages, shape.chunks, config.layers + 2));
  if (batches_.size() != static_cast<std::size_t>(shape.microbatches))
    usage_error(fmt::format("{} batches for {} microbatches", batches_.size(), shape.microbatches));
  const bool outer = group.rank() == 0 || group.rank() + 1 == shape.stages;
  tied_ = group.split(config.tied_head && shape.stages > 1 && outer ? 0 : -1, group.rank());
  gpt_.use(layers_);
  own_tensors(seed);
  allocate_scratch();
}

void GptStage::own_tensors(std::uint64_t seed) {
  const GptConfig& config = gpt_.config();
  const auto visits = gpt_visits(config);
  std::set<std::size_t> own;
  for (int chunk = 0; chunk < shape_.chunks; ++chunk)
    for (std::size_t piece = part_of(chunk).begin; piece < part_of(chunk).end; ++piece)
      own.insert(visits[piece].begin(), visits[piece].end());
  std::size_t size = 0;
  for (const std::size_t index : own) {
    Parameter tensor = gpt_.parameters().list[index];
    tensor.offset = size;
    size += tensor.size;
    parameters_.list.push_back(tensor);
    tensors_.push_back(index);
  }
  parameters_.values = me_.allocate(size, config.storage, Category::parameter);
  parameters_.gradients = me_.allocate(size, config.storage, Category::gradient);
  fill(me_, parameters_.gradients, 0);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    gpt_.bind(tensors_[i], parameters_.value(i), parameters_.gradient(i));
    initialise_part(me_, config, gpt_.parameters().list[tensors_[i]], tensors_[i], 0, parameters_.value(i), seed);
  }
}

void GptStage::allocate_scratch() {
  std::size_t rows = 0;
  for (const Batch& batch : batches_) rows = std::max(rows, batch.rows());
  const auto values = [&](std::size_t count) {
    return me_.allocate(count * rows * gpt_.config().d_model, gpt_.config().storage, Category::activation);
  };
  residual_ = values(1);
  scratch_ = {values(1), values(4)};
  loss_ = me_.allocate(1, DType::f32, Category::buffer);
  fill(me_, loss_, 0);
}

GptStage::Part GptStage::part_of(int chunk) const {
  const auto k = static_cast<std::size_t>(chunk * shape_.stages + me_.rank());
  return {first_.at(k), first_.at(k + 1)};
}

std::size_t GptStage::boundary_elements(int microbatch) const {
  return batches_.at(static_cast<std::size_t>(microbatch)).rows() * gpt_.config().d_model;
}

Activations GptStage::allocate(const Part& part, const Batch& batch, Slice input, Slice output) const {
  const GptConfig& config = gpt_.config();
  const BlockShape shape = gpt_.block_shape(batch.sequences, batch.length);
  const std::size_t narrow = shape.rows() * config.d_model;
  Rank me = me_;
  const auto values = [&](std::size_t count) { return me.allocate(count, config.storage, Category::activation); };
  Activations saved{.sequences = batch.sequences, .length = batch.length};
  saved.blocks.resize(config.layers);
  for (std::size_t l = first_block(part); l < last_block(part); ++l)
    saved.blocks[l] = allocate_block_activations(me_, shape, config.storage);
  // Where the part's input comes from, and where its output goes.
  const auto place = [&](std::size_t l) -> Slice& { return l < config.layers ? saved.blocks[l].input : saved.output; };
  if (has_head(part)) {
    saved.output = values(narrow);
    saved.norm = values(narrow);
    saved.norm_statistics = me.allocate(2 * shape.rows(), DType::f32, Category::activation);
    saved.logits = values(shape.rows() * config.own_vocabulary());
  } else {
    place(last_block(part)) = output;
  }
  if (!embeds(part)) place(first_block(part)) = input;
  return saved;
}

void GptStage::forward(int microbatch, int chunk, Slice input, Slice output) {
  const Part part = part_of(chunk);
  const Batch& batch = batches_.at(static_cast<std::size_t>(microbatch));
  Activations& saved = in_flight_[{microbatch, chunk}] = allocate(part, batch, input, output);
  if (embeds(part)) gpt_.embed(me_, batch, saved);
  for (std::size_t l = first_block(part); l < last_block(part); ++l) gpt_.forward_block(me_, l, saved);
  if (!has_head(part)) return;
  gpt_.forward_head(me_, saved);
  gpt_.layers().loss(me_, loss_, saved.logits, batch.targets, factor_, {});
}

void GptStage::backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) {
  if (work == Work::weight_gradient) return layers_->compute(me_, {microbatch, chunk});
  if (work == Work::input_gradient) layers_->begin({microbatch, chunk});
  const Part part = part_of(chunk);
  const Batch& batch = batches_.at(static_cast<std::size_t>(microbatch));
  Activations& saved = in_flight_.at({microbatch, chunk});
  const std::size_t narrow = boundary_elements(microbatch);
  saved.residual_gradient = embeds(part) ? residual_.cut(0, narrow) : input_gradient;
  saved.scratch = {scratch_.narrow.cut(0, narrow), scratch_.wide.cut(0, 4 * narrow)};
  if (has_head(part))
    gpt_.backward_head(me_, saved, {});
  else
    copy(me_, saved.residual_gradient, output_gradient);
  for (std::size_t l = last_block(part); l-- > first_block(part);) gpt_.backward_block(me_, l, saved, {});
  if (embeds(part)) gpt_.backward_embed(me_, batch, saved, {});
  layers_->end();
  in_flight_.erase({microbatch, chunk});
}

void GptStage::sum_tied_gradients() {
  if (tied_.size() < 2) return;
  const Slice mine = parameters_.gradient(0);  // the token embedding is the table's first tensor
  const Slice theirs = me_.allocate(mine.size(), mine.dtype(), Category::buffer);
  const int other = 1 - tied_.rank();
  Scope region = tied_.region("tied embedding", mine.bytes());
  tied_.exchange({send(other, mine), receive(other, theirs)});
  add(me_, mine, theirs);
}

}  // namespace lockstep

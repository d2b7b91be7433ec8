#include "common/gpt/model/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lockstep {

/// Layers that can postpone weight gradients: between `begin` and `end` they are recorded, with copies of tensors that
/// the backward pass overwrites, instead of computed.
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
    notes_->push_back({dhead, {}, dlogits, x, rows});  // belongs to this microbatch, so nothing overwrites it
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

namespace {

/// Calls the hook at the beginning and end of a step.
class StepHook {
 public:
  StepHook(const StageHooks& hooks, Step step) : hooks_(hooks), step_(step) {
    if (hooks_.step) hooks_.step(step_, true);
  }
  ~StepHook() {
    if (hooks_.step) hooks_.step(step_, false);
  }
  StepHook(const StepHook&) = delete;

 private:
  const StageHooks& hooks_;
  Step step_;
};

}  // namespace

std::vector<double> gpt_piece_costs(const GptConfig& config, std::size_t length, bool recomputed) {
  const auto c = static_cast<double>(config.d_model), t = static_cast<double>(length);
  // The matrices, and half of 4·T·C because of the causal mask.
  const double block = 2 * static_cast<double>(config.block_matrices()) + 2 * t * c;
  std::vector<double> costs(config.layers + 2, recomputed ? block * (4.0 / 3) : block);
  costs.front() = 2 * c;
  costs.back() = 2 * c * static_cast<double>(config.vocabulary);
  return costs;
}

std::vector<std::size_t> gpt_stage_tensors(const GptConfig& config, const PipelineShape& shape,
                                           const std::vector<std::size_t>& first, int stage) {
  const auto usage_order = gpt_usage_order(config);
  std::set<std::size_t> tensors;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    const auto part = static_cast<std::size_t>(part_of(shape, stage, chunk));
    for (std::size_t piece = first.at(part); piece < first.at(part + 1); ++piece)
      tensors.insert(usage_order[piece].begin(), usage_order[piece].end());
  }
  std::vector<std::size_t> all{tensors.begin(), tensors.end()};
  if (config.architecture.experts > 0)
    std::stable_sort(all.begin(), all.end(), [table = gpt_parameter_table(config)](std::size_t a, std::size_t b) {
      return mixture_part(table[a]) < mixture_part(table[b]);
    });
  return all;
}

GptStage::GptStage(Rank group, PipelineShape shape, const GptConfig& config, std::vector<std::size_t> first,
                   std::vector<Batch> batches, float factor, std::uint64_t seed, Owns owns, StageMemory memory)
    : me_(group),
      shape_(shape),
      first_(std::move(first)),
      batches_(std::move(batches)),
      factor_(factor),
      seed_(seed),
      memory_(memory),
      gpt_(group, config, seed, Owns::nothing),
      layers_(std::make_shared<SplitLayers>()),
      backwards_(static_cast<std::size_t>(shape.chunks)) {
  const auto parts = static_cast<std::size_t>(shape.stages) * static_cast<std::size_t>(shape.chunks);
  if (shape.stages != group.size() || first_.size() != parts + 1 || first_.front() != 0 ||
      first_.back() != config.layers + 2 ||
      std::adjacent_find(first_.begin(), first_.end(), std::greater_equal<>()) != first_.end())
    usage_error(
        fmt::format("{} stages of {} chunks need as many parts of the {} pieces of the model, each at least one",
                    shape.stages, shape.chunks, config.layers + 2));
  if (batches_.size() != static_cast<std::size_t>(shape.microbatches))
    usage_error(fmt::format("{} batches for {} microbatches", batches_.size(), shape.microbatches));
  for (const Batch& batch : batches_)
    if (batch.sequences > batches_.front().sequences || batch.length != batches_.front().length)
      usage_error("the first microbatch of a stage is its largest, and all are equally long");
  const int first_stage = 0, last_stage = chunk_of_part(shape, shape.stages * shape.chunks - 1).stage;
  const bool outer = group.rank() == first_stage || group.rank() == last_stage;
  tied_ = group.split(config.tied_head && first_stage != last_stage && outer ? 0 : -1, group.rank());
  embeds_twice_ = config.tied_head && first_stage == last_stage && group.rank() == first_stage && shape.chunks > 1;
  gpt_.use(layers_);
  own_tensors(seed, owns);
  allocate_scratch();
}

void GptStage::use(std::shared_ptr<const Layers> layers) {
  gpt_.use(std::move(layers));
  layers_ = nullptr;
}

void GptStage::only_evaluate(Slice loss, float factor) {
  evaluation_ = std::move(loss);
  evaluation_factor_ = factor;
}

void GptStage::own_tensors(std::uint64_t seed, Owns owns) {
  const GptConfig& config = gpt_.config();
  own_.resize(gpt_.parameters().list.size());
  std::size_t size = 0;
  for (const std::size_t index : gpt_stage_tensors(config, shape_, first_, me_.rank())) {
    Parameter tensor = gpt_.parameters().list[index];
    tensor.offset = size;
    size += tensor.size;
    own_[index] = tensors_.size();
    parameters_.list.push_back(tensor);
    tensors_.push_back(index);
  }
  if (owns == Owns::nothing) return;
  const bool both = owns == Owns::values_and_gradients;
  parameters_.values = me_.allocate(size, config.storage, Category::parameter);
  if (both) {
    parameters_.gradients = me_.allocate(size, config.gradients(), Category::gradient);
    fill(me_, parameters_.gradients, 0);
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    bind(i, parameters_.value(i), both ? parameters_.gradient(i) : Slice{});
    initialise_part(me_, config, parameters_.list[i], tensors_[i], 0, parameters_.value(i), seed);
  }
}

void GptStage::bind(std::size_t index, Slice value, Slice gradient) {
  gpt_.bind(tensors_.at(index), std::move(value), std::move(gradient));
}

void GptStage::initialise(std::size_t index, std::size_t first, Slice part) const {
  initialise_part(me_, gpt_.config(), parameters_.list.at(index), tensors_[index], first, std::move(part), seed_);
}

UsageOrder GptStage::usage_order() const {
  UsageOrder own = gpt_usage_order(gpt_.config());
  for (std::vector<std::size_t>& piece : own) {
    std::erase_if(piece,
                  [&](std::size_t index) { return own_[index] >= tensors_.size() || tensors_[own_[index]] != index; });
    for (std::size_t& index : piece) index = own_[index];
  }
  return own;
}

void GptStage::allocate_scratch() {
  const Batch& largest = batches_.front();
  const GptConfig& config = gpt_.config();
  const BlockShape shape = gpt_.block_shape(largest.sequences, largest.length);
  const auto values = [&](std::size_t count) { return me_.allocate(count, config.storage, Category::activation); };
  const std::size_t narrow = shape.norm_rows() * config.d_model;
  residual_ = values(narrow);
  scratch_ = {values(narrow), values(shape.rows() * shape.scratch_width())};
  if (memory_.keep == StageMemory::Keep::inputs && shape_.stages > 1) spare_ = values(narrow);
  loss_ = me_.allocate(1, DType::f32, Category::buffer);
  fill(me_, loss_, 0);
}

GptStage::Part GptStage::part_of(int chunk) const {
  const auto k = static_cast<std::size_t>(lockstep::part_of(shape_, me_.rank(), chunk));
  return {first_.at(k), first_.at(k + 1)};
}

bool GptStage::takes_from_itself(int chunk) const {
  const int part = lockstep::part_of(shape_, me_.rank(), chunk);
  return part > 0 && chunk_of_part(shape_, part - 1).stage == me_.rank();
}

std::size_t GptStage::boundary_elements(int microbatch) const {
  const Batch& batch = batches_.at(static_cast<std::size_t>(microbatch));
  return gpt_.block_shape(batch.sequences, batch.length).norm_rows() * gpt_.config().d_model;
}

/// Allocates a part's memory for the largest microbatch, except for the slices that come from or go to a neighbour.
Activations GptStage::allocate(const Part& part) {
  const GptConfig& config = gpt_.config();
  const Batch& batch = batches_.front();
  const BlockShape shape = gpt_.block_shape(batch.sequences, batch.length);
  const std::size_t narrow = shape.norm_rows() * config.d_model;
  Rank me = me_;
  const auto values = [&](std::size_t count) { return me.allocate(count, config.storage, Category::activation); };
  Activations saved{.sequences = batch.sequences, .length = batch.length};
  saved.restore = memory_.restore;
  saved.blocks.resize(config.layers);
  for (std::size_t l = first_block(part); l < last_block(part); ++l) {
    const bool received = l == first_block(part) && !embeds(part);
    saved.blocks[l] = allocate_block(shape);
    saved.blocks[l].input = received ? Slice{} : values(narrow);
  }
  if (!has_head(part)) return saved;
  if (embeds(part) || last_block(part) > first_block(part)) saved.output = values(narrow);
  saved.norm = values(narrow);
  saved.norm_statistics = me.allocate(shape.statistics(), DType::f32, Category::activation);
  saved.logits = values(shape.rows() * config.own_vocabulary());
  return saved;
}

/// Allocates the activations that a block keeps per microbatch, without its input, and those that all blocks share.
BlockActivations GptStage::allocate_block(const BlockShape& shape) {
  using Keep = StageMemory::Keep;
  const DType type = gpt_.config().storage;
  const bool first = shared_.norm1.empty();
  BlockActivations block;
  if (memory_.keep == Keep::inputs)
    block = first ? allocate_block_activations(me_, shape, type) : shared_;
  else
    block = allocate_block_activations(me_, shape, type, shared_.probabilities);
  block.input = {};
  if (first && memory_.keep != Keep::all) shared_ = block;
  return block;
}

void GptStage::forward(int microbatch, int chunk, Slice input, Slice output) {
  auto phase = me_.region("forward");
  const StepHook hook(hooks_, {Work::forward, microbatch, chunk});
  const Part part = part_of(chunk);
  const Batch& batch = batches_.at(static_cast<std::size_t>(microbatch));
  const auto before = [&](std::size_t piece) {
    if (hooks_.before_forward) hooks_.before_forward(piece);
  };
  if (takes_from_itself(chunk)) input = handed_.take({Work::forward, microbatch, chunk});
  if (gives_to_itself(chunk)) output = handed_.give({Work::forward, microbatch, chunk + 1}, boundary(microbatch));
  InFlight& flight = in_flight_[{microbatch, chunk}] = take(chunk, batch);
  Activations& saved = flight.saved;
  saved.microbatch = evaluation_.empty() ? microbatch : -1;
  if (!embeds(part)) place(saved, first_block(part)) = input;
  if (!has_head(part)) place(saved, last_block(part)) = output;
  if (embeds(part)) {
    before(0);
    gpt_.embed(me_, batch, saved);
  }
  for (std::size_t l = first_block(part); l < last_block(part); ++l) {
    before(l + 1);
    gpt_.forward_block(me_, l, saved);
  }
  if (!has_head(part)) place(saved, last_block(part)) = {};  // belongs to the next stage
  if (has_head(part)) {
    before(gpt_.config().layers + 1);
    gpt_.forward_head(me_, saved);
  }
  if (hooks_.end_forward) hooks_.end_forward();
  if (!evaluation_.empty()) {
    if (has_head(part))
      gpt_.layers().validation_loss(me_, evaluation_, saved.logits, batch.targets, evaluation_factor_);
    give_back(microbatch, chunk);
  } else if (has_head(part)) {
    gpt_.layers().loss(me_, loss_, saved.logits, batch.targets, factor_, gradient_scale_);
  }
}

void GptStage::backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) {
  auto phase = me_.region("backward");
  const StepHook hook(hooks_, {work, microbatch, chunk});
  if (work != Work::backward && !layers_)
    usage_error(
        "zero-bubble schedules cannot split the backward pass of layers that several ranks share: these overlap their "
        "all-reduces with the weight gradients, which therefore cannot be delayed");
  const Part part = part_of(chunk);
  const bool last =
      work != Work::input_gradient && ++backwards_[static_cast<std::size_t>(chunk)] == shape_.microbatches;
  if (last) backwards_[static_cast<std::size_t>(chunk)] = 0;
  if (work == Work::weight_gradient) {
    layers_->compute(me_, {microbatch, chunk});
    give_back(microbatch, chunk);
    if (last) all_ready(part);
    return;
  }
  if (gives_to_itself(chunk)) output_gradient = handed_.take({Work::input_gradient, microbatch, chunk});
  if (takes_from_itself(chunk))
    input_gradient = handed_.give({Work::input_gradient, microbatch, chunk - 1}, boundary(microbatch));
  if (work == Work::input_gradient) layers_->begin({microbatch, chunk});
  pass_back(part, batches_.at(static_cast<std::size_t>(microbatch)), in_flight_.at({microbatch, chunk}).saved,
            output_gradient, input_gradient, last);
  if (work == Work::input_gradient) return layers_->end();
  give_back(microbatch, chunk);
}

void GptStage::pass_back(const Part& part, const Batch& batch, Activations& saved, const Slice& output_gradient,
                         const Slice& input_gradient, bool last) {
  const BlockShape shape = gpt_.block_shape(batch.sequences, batch.length);
  const std::size_t narrow = shape.norm_rows() * gpt_.config().d_model;
  const auto before = [&](std::size_t piece) {
    if (hooks_.before_backward) hooks_.before_backward(piece);
  };
  GradientReady own;
  if (last && hooks_.ready) own = [&](std::size_t index) { ready(index); };
  saved.residual_gradient = embeds(part) ? residual_.cut(0, narrow) : input_gradient;
  saved.scratch = {scratch_.narrow.cut(0, narrow), scratch_.wide.cut(0, shape.rows() * shape.scratch_width())};
  if (has_head(part)) {
    before(gpt_.config().layers + 1);
    gpt_.backward_head(me_, saved, own);
    if (own && (shares_embedding() || embeds_twice_)) own(0);
  } else {
    copy(me_, saved.residual_gradient, output_gradient);
    place(saved, last_block(part)) = spare_.empty() ? Slice{} : spare_.cut(0, narrow);  // recomputation writes there
  }
  for (std::size_t l = last_block(part); l-- > first_block(part);) {
    before(l + 1);
    gpt_.backward_block(me_, l, saved, own);
  }
  if (embeds(part)) {
    before(0);
    gpt_.backward_embed(me_, batch, saved, own);
  }
  if (hooks_.end_backward) hooks_.end_backward();
}

/// Reports tensor `index` of the whole table. A tied embedding is ready with the second of its two parts.
void GptStage::ready(std::size_t index) {
  if (index == 0 && embeds_twice_ && (embedding_half_ = !embedding_half_)) return;
  hooks_.ready(own_[index]);
}

void GptStage::all_ready(const Part& part) {
  if (!hooks_.ready) return;
  std::set<std::size_t, std::greater<>> own;
  const auto usage_order = gpt_usage_order(gpt_.config());
  for (std::size_t piece = part.begin; piece < part.end; ++piece)
    own.insert(usage_order[piece].begin(), usage_order[piece].end());
  for (const std::size_t index : own) ready(index);
}

GptStage::InFlight GptStage::take(int chunk, const Batch& batch) {
  std::vector<Activations>& free = free_[chunk];
  if (free.empty()) free.push_back(allocate(part_of(chunk)));
  InFlight flight{std::move(free.back()), {}};
  free.pop_back();
  if (batch.sequences == flight.saved.sequences) return flight;
  flight.whole = std::move(flight.saved);
  flight.saved = gpt_.first_sequences(flight.whole, batch.sequences);
  return flight;
}

void GptStage::give_back(int microbatch, int chunk) {
  const auto found = in_flight_.find({microbatch, chunk});
  const Part part = part_of(chunk);
  Activations memory = std::move(found->second.whole.blocks.empty() ? found->second.saved : found->second.whole);
  in_flight_.erase(found);
  if (!embeds(part)) place(memory, first_block(part)) = {};
  if (!has_head(part)) place(memory, last_block(part)) = {};
  memory.residual_gradient = {};
  memory.scratch = {};
  free_[chunk].push_back(std::move(memory));
}

void GptStage::sum_tied(Slice mine) {
  if (tied_.size() < 2) return;
  const Slice theirs = me_.allocate(mine.size(), mine.dtype(), Category::buffer);
  const int other = 1 - tied_.rank();
  Scope region = tied_.region("tied embedding", mine.bytes());
  tied_.exchange({send(other, mine), receive(other, theirs)});
  add(me_, mine, theirs);
}

}  // namespace lockstep

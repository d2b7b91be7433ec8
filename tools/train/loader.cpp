#include "tools/train/loader.hpp"

#include <algorithm>
#include <optional>

namespace lockstep::train {

void upload_text(Rank me, const std::vector<Batch>& batches, const week23::ContextShare& context,
                 const TextBatch* text) {
  std::size_t first = 0;
  for (const Batch& part : batches) {
    const TextBatch mine = text ? text->rows(first, part.sequences) : TextBatch{};
    const auto put = [&](const Slice& slice, const std::vector<std::int32_t>& whole) {
      upload(me, slice,
             text ? week23::own_positions(whole, text->length, context) : std::vector<std::int32_t>(part.rows()));
    };
    put(part.tokens, mine.inputs);
    put(part.targets, mine.targets);
    first += part.sequences;
  }
}

std::vector<Batch> allocate_waiting(Rank me, const std::vector<Batch>& like) {
  std::vector<Batch> parts = like;
  for (Batch& part : parts)
    for (Slice* slice : {&part.tokens, &part.targets})
      *slice = me.allocate(slice->size(), slice->dtype(), Category::buffer);
  return parts;
}

Loader::Loader(Rank me, const TrainPlan& plan, Trainer& trainer)
    : me_(me),
      trainer_(trainer),
      next_(static_cast<std::size_t>(trainer.optimizers().front()->steps())),
      end_(static_cast<std::size_t>(plan.request.steps)) {
  const std::size_t rows = trainer.shard().size, length = plan.step.sequence;
  source_ = {.corpus = plan.corpus ? &*plan.corpus : nullptr,
             .shard = trainer.shard(),
             .length = length,
             .bytes = plan.corpus ? plan.corpus->bytes_of_rows(rows, length) : 0,
             .seed = plan.step.seed,
             .context = trainer.context(),
             .seconds = plan.loading_seconds(rows),
             .pass_time = plan.pass_time};
  if (plan.request.load_ahead == 0) return;
  queue_ = me.stream("loader");
  for (int i = 0; i < plan.request.load_ahead; ++i) waiting_.push_back({allocate_waiting(me, trainer.batches()), {}});
}

void Loader::load(Rank me, const Source& source, std::size_t step, const std::vector<Batch>& into) {
  auto loading = me.region("data", source.bytes);
  std::optional<TextBatch> text;
  if (source.corpus)
    text = source.corpus->batch_rows(step, source.shard.offset, source.shard.size, source.length, source.seed);
  if (source.seconds > 0) source.pass_time(me, source.seconds);
  upload_text(me, into, source.context, text ? &*text : nullptr);
}

void Loader::load_next() {
  Waiting& place = waiting_[next_ % waiting_.size()];
  place.loaded = me_.run(
      queue_, [source = source_, step = next_, into = place.parts](Rank queue) { load(queue, source, step, into); });
  ++next_;
}

void Loader::bring(std::size_t step) {
  const std::vector<Batch>& batches = trainer_.batches();
  if (waiting_.empty()) return load(me_, source_, step, batches);
  auto phase = me_.region("input");
  while (next_ < std::min(end_, step + waiting_.size())) load_next();  // before the first step: as many as there may be
  const Waiting& loaded = waiting_[step % waiting_.size()];
  me_.wait(loaded.loaded);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    copy(me_, batches[i].tokens, loaded.parts[i].tokens);
    copy(me_, batches[i].targets, loaded.parts[i].targets);
  }
  if (next_ < end_) load_next();
}

void Loader::finish() {
  for (const Waiting& each : waiting_) me_.wait(each.loaded);
}

}  // namespace lockstep::train

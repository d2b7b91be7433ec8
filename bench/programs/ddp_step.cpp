#include "bench/programs/ddp_step.hpp"

#include <algorithm>
#include <cmath>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/gpt/model/serial.hpp"
#include "common/support/host/host.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

using week21::Ddp;

Batch batch_of(Rank me, const DdpShape& shape, ChunkRange part) {
  return counted_batch(me, part.offset, part.size, shape.length, shape.model.vocabulary);
}

/// Sequences of microbatch i of a rank's shard.
ChunkRange microbatch(const DdpShape& shape, int rank, int ranks, int i) {
  const ChunkRange shard = chunk_range(shape.sequences, rank, ranks);
  const ChunkRange part = chunk_range(shard.size, i, shape.microbatches);
  return {shard.offset + part.offset, part.size};
}

/// One rank's model, optimizer and data for a step.
class Step {
 public:
  Step(Rank me, const DdpShape& shape, Variant variant, Purpose purpose)
      : me_(me),
        shape_(shape),
        variant_(variant),
        purpose_(purpose),
        gpt_(me, shape.model, /*seed=*/1),
        optimizer_(me, gpt_.parameters(), {}),
        saved_(gpt_.allocate_activations(me, microbatch(shape, 0, me.size(), 0).size, shape.length)),
        scalars_(allocate_step_scalars(me)) {
    for (int i = 0; i < shape.microbatches; ++i)
      batches_.push_back(batch_of(me, shape, microbatch(shape, me.rank(), me.size(), i)));
    shape_.ddp.overlap = variant == Variant::overlapped;
    buckets_ = week21::bucket_layout(gpt_.parameters(), shape_.ddp);
    if (me.size() > 1 || variant != Variant::compute)
      ddp_ = week21::make_ddp(me, gpt_.parameters(), shape_.ddp, week21::ring_all_reduce);
    const bool alone = variant == Variant::communication;
    fill(me, gpt_.parameters().gradients, alone ? static_cast<float>(me.rank() + 1) : 0);
  }

  void act() {
    if (variant_ == Variant::communication) return average_buckets();
    fill(me_, scalars_.loss, 0);
    if (variant_ == Variant::compute)
      compute({});
    else
      week21::run_window(*ddp_, shape_.microbatches,
                         [&](int i) { pass(i, [&](std::size_t p) { ddp_->gradient_ready(p); }); });
    if (purpose_ == Purpose::time) update();
  }

  /// Runs forward and backward of all microbatches; calls `ready` in the last one.
  void compute(const GradientReady& ready) {
    for (int i = 0; i < shape_.microbatches; ++i) pass(i, i + 1 == shape_.microbatches ? ready : GradientReady{});
  }
  void update() { finish_step(me_, gpt_, optimizer_, scalars_, {}); }
  const std::vector<week21::Bucket>& buckets() const { return buckets_; }

  bool right() {
    const std::vector<float> mine = to_host(me_, gpt_.parameters().gradients);
    if (variant_ == Variant::communication) {
      const float average = static_cast<float>(me_.size() + 1) / 2;
      return std::all_of(mine.begin(), mine.end(), [&](float x) { return std::abs(x - average) <= 1e-6f * average; });
    }
    return distance(mine, whole_batch()) < 1e-4;
  }
  /// True if the loss falls in three more steps, of a rank alone after its first.
  bool learns_more() {
    const float first = read(me_, scalars_.loss, 0);
    for (int i = 0; i < 3; ++i) act();
    return learns(shape_.model, first, read(me_, scalars_.loss, 0));
  }

 private:
  void pass(int i, const GradientReady& ready) {
    const float factor = static_cast<float>(me_.size()) / static_cast<float>(shape_.sequences * shape_.length);
    accumulate_gradients(me_, gpt_, std::span(&batches_[static_cast<std::size_t>(i)], 1), saved_, scalars_.loss, factor,
                         ready);
  }

  void average_buckets() {
    for (const week21::Bucket& bucket : buckets_) week21::average(me_, bucket.gradients, week21::ring_all_reduce);
  }

  /// Computes the gradient of the whole batch on this rank alone.
  std::vector<float> whole_batch() {
    fill(me_, gpt_.parameters().gradients, 0);
    const float factor = 1 / static_cast<float>(shape_.sequences * shape_.length);
    for (int rank = 0; rank < me_.size(); ++rank)
      for (int i = 0; i < shape_.microbatches; ++i) {
        const Batch batch = batch_of(me_, shape_, microbatch(shape_, rank, me_.size(), i));
        accumulate_gradients(me_, gpt_, std::span(&batch, 1), saved_, scalars_.loss, factor);
      }
    return to_host(me_, gpt_.parameters().gradients);
  }

  /// ‖a − b‖ / ‖b‖; NaN, which fails every comparison, if a value is not finite.
  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
      norm += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / norm);
  }

  Rank me_;
  DdpShape shape_;
  Variant variant_;
  Purpose purpose_;
  Gpt gpt_;
  Optimizer optimizer_;
  Activations saved_;
  StepScalars scalars_;
  std::vector<Batch> batches_;
  std::vector<week21::Bucket> buckets_;
  std::unique_ptr<Ddp> ddp_;  // null for a rank that computes alone
};

/// One step on one rank, as numbers: seconds, end of the backward pass, then for each bucket its ready time and bytes.
Values serial_step_of(Rank me, Step& step, std::size_t parameters) {
  std::vector<double> ready(parameters, 0);
  const double begin = me.now();
  step.compute([&](std::size_t parameter) { ready[parameter] = me.now() - begin; });
  Values values{0, me.now() - begin};
  step.update();
  values[0] = me.now() - begin;
  for (const week21::Bucket& bucket : step.buckets()) {
    const auto first = ready.begin() + static_cast<std::ptrdiff_t>(bucket.first);
    values.push_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(bucket.count)));
    values.push_back(static_cast<double>(bucket.gradients.bytes()));
  }
  // Buckets are averaged in order, so none starts before its predecessor is complete.
  for (std::size_t i = 4; i < values.size(); i += 2) values[i] = std::max(values[i], values[i - 2]);
  return values;
}

/// Time to average one bucket, and the arithmetic in it.
struct BucketPrice {
  double seconds = 0;
  double arithmetic = 0;
};
/// `cold`, from 0 to 1: how cold the bucket's gradients are, which have not been touched since the last step. If they
/// are, a ring's first message and all its additions read from memory. Its other messages find the results of the
/// additions in a cache, except for the part of the bucket that does not fit.
BucketPrice price(double bytes, const LinkPrices& prices, int ranks, double cold) {
  if (ranks == 1) return {};
  const double p = ranks;
  const double too_long = prices.tables.cold_share(bytes), first = 1 / (2 * (p - 1));
  const LinkPrices chunk = prices.at(bytes / p, cold * (first + (1 - first) * too_long), cold);
  const LinkPrices whole = prices.at(bytes, 0, too_long);
  const week21::CostModel cost{chunk.alpha, chunk.beta, chunk.gamma, chunk.launch};
  const double scaling = whole.launch + bytes * whole.gamma * 2 / 3;  // a read and a write, where an addition has three
                                                                      // accesses
  const double adding = (p - 1) * (bytes / p * chunk.gamma + chunk.launch);
  return {week21::ring_all_reduce_seconds(cost, ranks, bytes) + scaling, adding + scaling};
}

}  // namespace

DdpShape ddp_shape(const StepShape& step, std::size_t bucket_bytes) {
  DdpShape shape{step};
  const std::size_t gradients = step.model.parameters() * bytes_of(step.model.storage);
  shape.ddp.bucket_bytes =
      bucket_bytes ? bucket_bytes : std::min<std::size_t>(std::size_t{25} << 20, gradients / 8 + 1);
  shape.ddp.first_bucket_bytes = std::min<std::size_t>(shape.ddp.bucket_bytes, std::size_t{1} << 20);
  return shape;
}

std::string to_string(Variant variant) {
  switch (variant) {
    case Variant::compute: return "compute";
    case Variant::sequential: return "no_overlap";
    case Variant::overlapped: return "overlap";
    case Variant::communication: return "communication";
  }
  return "";
}

Prepared prepare_step(Rank me, const DdpShape& shape, Variant variant, Purpose purpose) {
  auto step = std::make_shared<Step>(me, shape, variant, purpose);
  Prepared prepared{.act = [step] { step->act(); }, .right = {}};
  if (variant != Variant::compute) prepared.right = [step] { return step->right(); };
  return prepared;
}

Prepared prepare_serial_step(Rank me, const StepShape& shape) {
  auto step = std::make_shared<Step>(me, DdpShape{shape}, Variant::compute, Purpose::time);
  return {.act = [step] { step->act(); }, .right = [step] { return step->learns_more(); }};
}

bool learns(const GptConfig& model, double first_loss, double last_loss) {
  const double nothing = std::log(static_cast<double>(model.vocabulary));
  return std::abs(first_loss - nothing) < 0.1 * nothing && last_loss < first_loss;
}

SerialStep profile_serial_step(RunOptions options, const DdpShape& shape, int ranks) {
  DdpShape shard = shape;
  shard.sequences = chunk_range(shape.sequences, 0, ranks).size;
  const bool together = on_own_cores(options);
  options.ranks = together ? ranks : 1;
  const Outcome outcome = run(options, [&](Rank world) -> Values {
    const Rank me = together ? world.split(world.rank(), 0) : world;
    Step step(me, shard, Variant::compute, Purpose::time);
    const std::size_t parameters = gpt_parameter_table(shape.model).size();
    std::vector<Values> samples;
    for (int i = 0; i < (time_is_virtual() ? 1 : 9); ++i) samples.push_back(serial_step_of(me, step, parameters));
    if (!time_is_virtual()) samples.erase(samples.begin(), samples.begin() + 2);  // warm-up
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  });
  outcome.check();
  const Values& values = *std::max_element(outcome.values.begin(), outcome.values.end());  // the slowest rank's
  SerialStep serial{.buckets = {},
                    .backward_end = values[1],
                    .seconds = values[0],
                    .memory_bytes = static_cast<double>(outcome.ledgers[0].memory.peak_total)};
  for (std::size_t i = 2; i + 1 < values.size(); i += 2) serial.buckets.push_back({values[i], values[i + 1]});
  return serial;
}

bool has_spare_cores(const RunOptions& options) {
  return !on_own_cores(options) || read_host().usable_cores >= 2 * options.ranks;
}

double predicted_seconds(const SerialStep& serial, Variant variant, const LinkPrices& prices, int ranks,
                         bool spare_cores) {
  double total = 0, lengthened = 0, end = 0, gradients = 0;
  for (const SerialStep::BucketReady& bucket : serial.buckets) gradients += bucket.bytes;
  const double cold = prices.tables.cold_share(variant == Variant::communication ? gradients : serial.memory_bytes);
  for (const SerialStep::BucketReady& bucket : serial.buckets) {
    const BucketPrice cost = price(bucket.bytes, prices, ranks, cold);
    total += cost.seconds;
    const double begin = std::max(bucket.seconds + lengthened, end);
    end = begin + cost.seconds;
    if (begin < serial.backward_end + lengthened) lengthened += cost.arithmetic;
  }
  if (variant == Variant::compute) return serial.seconds;
  if (variant == Variant::communication) return total;
  if (variant == Variant::sequential || !spare_cores) return serial.seconds + total;
  return std::max(serial.backward_end + lengthened, end) + serial.seconds - serial.backward_end;
}

std::vector<Contender> step_contenders(const std::vector<Variant>& variants, const DdpShape& shape,
                                       const SerialStep& serial, const LinkPrices& prices, const RunOptions& options) {
  std::vector<Contender> contenders;
  for (Variant variant : variants)
    contenders.push_back(
        {.name = to_string(variant),
         .prepare = [=](Rank me, Purpose purpose) { return prepare_step(me, shape, variant, purpose); },
         .predicted_seconds = predicted_seconds(serial, variant, prices, options.ranks, has_spare_cores(options))});
  return contenders;
}

}  // namespace lockstep::bench

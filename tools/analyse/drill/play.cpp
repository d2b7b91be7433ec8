#include "tools/analyse/drill/play.hpp"

#include <bit>
#include <cmath>
#include <optional>

#include "common/backends/sim/host_time.hpp"
#include "common/chunk.hpp"
#include "common/support/text/fnv.hpp"
#include "labs/trainer/engine.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week25_3d/step_3d.hpp"
#include "tools/analyse/drill/faulty_backend.hpp"
#include "tools/analyse/drill/plant.hpp"

namespace lockstep::drill {
namespace {

/// Reads outside ledgers and virtual time, so that looking changes nothing.
std::vector<char> bytes_of_slice(const Rank& me, const Slice& slice) {
  std::vector<char> bytes(slice.bytes());
  if (!bytes.empty()) me.backend().peek({me.group(), me.queue()}, slice, bytes.data());
  return bytes;
}

float value_of(const Rank& me, const Slice& scalar) {
  return *reinterpret_cast<const float*>(bytes_of_slice(me, scalar).data());
}

void add_to(Fnv1a& hash, const Rank& me, const Slice& slice) {
  const std::vector<char> bytes = bytes_of_slice(me, slice);
  hash.add(std::string_view(bytes.data(), bytes.size()));
}

/// One rank's program.
class Trainee {
 public:
  Trainee(Rank bare, FaultyBackend& backend, const Job& job, const Corpus& corpus, const Fault& fault, Played& played)
      : bare_(bare),
        backend_(backend),
        me_(backend.wrap(bare)),
        job_(job),
        corpus_(corpus),
        fault_(fault),
        played_(played) {}

  void train() {
    week25::Options3d options = job_.options;
    if (fault_.is("mesh-order")) options.order = kFaultyOrder;
    const week25::Mesh mesh = week25::make_mesh(me_, options.mesh, options.order);
    if (options.zero == 0)
      options.make_all_reduce = [this, &options](Rank, const Parameters& parameters, const week21::StepsDone&) {
        return all_reduce(week21::bucket_layout(parameters, week25::bucket_options(options.bucket_bytes, true)));
      };
    week25::Worker worker = week25::make_worker(mesh, options);
    plant(fault_, me_.world_rank(), backend_, worker);
    name_steps(worker);
    for (step_ = 0; step_ < job_.steps; ++step_) {
      bucket_ = 0;
      step(worker);
    }
  }

 private:
  void step(week25::Worker& worker) {
    const double begin = me_.now();
    {
      auto phase = me_.region("step");
      load(worker);
      week25::accumulate_gradients(worker);
      week25::update(worker, job_.learning_rate, job_.max_norm);
    }
    StepSeen& seen = played_.steps.emplace_back();
    seen = {.rank = me_.world_rank(), .step = step_, .begin = begin, .seconds = me_.now() - begin};
    seen.loss = value_of(me_, worker.scalars.loss);
    seen.norm = std::sqrt(value_of(me_, worker.scalars.squares));
    Fnv1a hash;
    for (const auto& engine : worker.engines) add_to(hash, me_, engine->whole_values());
    seen.values = hash.folded();
  }

  void load(week25::Worker& worker) {
    auto phase = me_.region("data");
    if (fault_.is("slow-loader") && fault_.at(me_.world_rank(), step_)) pass_host_time(bare_, fault_.seconds);
    const week25::Options3d& o = job_.options;
    const TextBatch text = corpus_.batch(static_cast<std::uint64_t>(step_), o.batch, o.sequence, o.seed);
    const bool next = fault_.is("same-data") && fault_.at(me_.world_rank(), step_);
    const ChunkRange shard = chunk_range(o.batch, (worker.mesh.here.dp + (next ? 1 : 0)) % o.mesh.dp, o.mesh.dp);
    const TextBatch mine = text.rows(shard.offset, shard.size);
    std::size_t at = 0;
    for (const Batch& part : worker.batches) {
      upload(me_, part.tokens, std::span(mine.inputs).subspan(at, part.rows()));
      upload(me_, part.targets, std::span(mine.targets).subspan(at, part.rows()));
      at += part.rows();
    }
  }

  /// 21.2's ring, recorded; and the fault planted in a bucket.
  week21::AllReduce all_reduce(const std::vector<week21::Bucket>& buckets) {
    return [this, buckets](Rank queue, Slice gradients) {
      const int bucket = bucket_++;
      const bool here = fault_.at(me_.world_rank(), step_) && bucket == fault_.bucket;
      if (here && fault_.is("swapped-order")) gradients = buckets.at(static_cast<std::size_t>(bucket) + 1).gradients;
      if (here && fault_.is("wrong-count")) gradients = gradients.cut(0, gradients.size() - fault_.left_out);
      const std::size_t index = played_.collectives.size();
      played_.collectives.push_back({me_.world_rank(), ++number_, step_, gradients.bytes(), false, 0});
      week21::ring_all_reduce(queue, gradients);
      if (here && fault_.is("flipped-bit")) flip(gradients);
      Fnv1a hash;
      add_to(hash, queue, gradients);
      played_.collectives[index].ended = true;
      played_.collectives[index].result = hash.folded();
    };
  }

  /// A bit of the drawn element, or of the next one whose value counts.
  void flip(const Slice& gradients) const {
    auto* values = static_cast<float*>(gradients.data());
    std::size_t at = fault_.element % gradients.size();
    while (std::abs(values[at]) < 1e-5f) at = (at + 1) % gradients.size();
    values[at] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[at]) ^ std::uint32_t{1} << fault_.bit);
  }

  /// Steps of a pipeline's schedule become regions of the trace: "F3".
  void name_steps(week25::Worker& worker) {
    if (job_.options.mesh.pp == 1) return;
    for (const Step& step : worker.schedule) played_.step_names.try_emplace(step, to_string(step));
    StageHooks hooks = worker.stage->hooks();
    hooks.step = [this](const Step& step, bool begins) {
      if (begins)
        scope_.emplace(me_.region(played_.step_names.at(step).c_str()));
      else
        scope_.reset();
    };
    worker.stage->use(std::move(hooks));
  }

  Rank bare_;  // for what the faulty one cannot say
  FaultyBackend& backend_;
  Rank me_;
  const Job& job_;
  const Corpus& corpus_;
  const Fault& fault_;
  Played& played_;
  int step_ = 0, bucket_ = 0, number_ = 0;
  std::optional<Scope> scope_;
};

std::vector<std::uint64_t> sent_across_nodes(const Job& job, const Outcome& outcome) {
  std::vector<std::uint64_t> bytes;
  const int node = job.machine.levels.front().ranks;
  for (int rank = 0; rank < static_cast<int>(outcome.ledgers.size()); ++rank) {
    std::uint64_t& sum = bytes.emplace_back();
    for (const PeerTraffic& with : outcome.ledgers[static_cast<std::size_t>(rank)].peers)
      if (with.peer / node != rank / node) sum += with.traffic.bytes_sent;
  }
  return bytes;
}

}  // namespace

Played play(const Job& job, const Corpus& corpus, const Fault& fault) {
  Played played;
  std::vector<FaultyBackend> faulty(static_cast<std::size_t>(job.ranks()));
  const RunOptions options{
      .ranks = job.ranks(), .machine = job.machine, .check_races = false, .trace = true, .threads = 1};
  played.outcome = run(options, [&](Rank bare) {
    Trainee(bare, faulty[static_cast<std::size_t>(bare.rank())], job, corpus, fault, played).train();
  });
  played.across_nodes = sent_across_nodes(job, played.outcome);
  return played;
}

}  // namespace lockstep::drill

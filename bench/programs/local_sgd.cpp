// ./lab bench local_sgd: bytes that a rank sends per training step, and the loss in model quality. A GPT is trained on
// text by DDP, by the compressed sums of 21.9, and by 21.12's local SGD and DiLoCo; each sees the same batches.
//
//   ./lab bench local_sgd --ranks 4 --steps 400
//   ./lab bench local_sgd --machine dgx-a100-10gbe --ranks 16 --steps 100
//   ./lab bench local_sgd --backend mpi --ranks 2 --every 16
#include "labs/week21_data_parallel/local_sgd.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "bench/support/bench.hpp"
#include "common/gpt/data/corpus.hpp"
#include "common/gpt/model/serial.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/large_batch.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

using week21::Compression;
using week21::Method;
using week21::OuterSgd;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kValidationBatches = 8;

struct LocalOptions {
  std::string model = "tiny";
  std::vector<std::string> every{"4", "16", "64"};
  int steps = 200, batch = 16, seed = 1;
  double rate = 3e-3, density = 0.01, outer_rate = 0.7, outer_momentum = 0.9, share = 0.05;
};

struct Named {
  std::string name;
  Compression how;                // applied to gradients
  std::optional<OuterSgd> outer;  // replaces sums of gradients
};

std::vector<Named> methods_of(const LocalOptions& o) {
  std::vector<Named> all{{"ddp", {}, {}},
                         {"int8-two-step", {.method = Method::int8_two_step}, {}},
                         {fmt::format("topk:{:g}", o.density), {.method = Method::top_k, .density = o.density}, {}}};
  for (const std::string& text : o.every) {
    const int every = count_in("--every", text, 1'000'000);
    all.push_back(
        {fmt::format("local-sgd:{}", every), {}, OuterSgd{.every = every, .learning_rate = 1, .momentum = 0}});
    all.push_back({fmt::format("diloco:{}", every),
                   {},
                   OuterSgd{.every = every,
                            .learning_rate = static_cast<float>(o.outer_rate),
                            .momentum = static_cast<float>(o.outer_momentum)}});
  }
  return all;
}

/// One rank's training: the model, its own AdamW, and memory for its part of each batch.
struct Replica {
  Rank me;
  Gpt gpt;
  Optimizer optimizer;
  Batch batch;
  Activations saved;
  StepScalars scalars;

  Replica(Rank rank, const GptConfig& config, std::uint64_t seed, std::size_t sequences)
      : me(rank),
        gpt(me, config, seed),
        optimizer(me, gpt.parameters(), {}),
        batch{me.allocate(sequences * config.context, DType::i32, Category::buffer),
              me.allocate(sequences * config.context, DType::i32, Category::buffer), sequences, config.context},
        saved(gpt.allocate_activations(me, sequences, config.context)),
        scalars(allocate_step_scalars(me)) {
    fill(me, gpt.parameters().gradients, 0);
  }

  void load(const TextBatch& text) {
    upload(me, batch.tokens, text.inputs);
    upload(me, batch.targets, text.targets);
  }
  /// Adds the gradient of the mean loss over this rank's sequences.
  void pass() {
    fill(me, scalars.loss, 0);
    accumulate_gradients(me, gpt, {&batch, 1}, saved, scalars.loss, 1 / static_cast<float>(batch.rows()));
  }
  /// Loss on text that no rank has trained on; computed by each rank alone.
  double validation_loss(const Corpus& corpus) {
    fill(me, scalars.loss, 0);
    for (std::size_t i = 0; i < kValidationBatches; ++i) {
      load(corpus.validation_batch(i, batch.sequences, batch.length));
      add_validation_loss(me, gpt, batch, saved, scalars.loss,
                          1 / static_cast<float>(batch.rows() * kValidationBatches));
    }
    return static_cast<double>(read(me, scalars.loss, kNone));
  }
};

/// Indices of a rank's results.
constexpr std::size_t kLoss = 0, kBytes = 1, kSeconds = 2, kStateBytes = 3, kSquares = 4;

/// Trains. Returns the validation loss, and bytes and seconds of the steps alone.
Values train(Rank me, const Named& method, const LocalOptions& o, const GptConfig& config, const Corpus& corpus) {
  const ChunkRange shard = chunk_range(static_cast<std::size_t>(o.batch), me.rank(), me.size());
  const auto seed = static_cast<std::uint64_t>(o.seed);
  Replica replica(me, config, seed, shard.size);
  const Parameters& parameters = replica.gpt.parameters();
  std::optional<week21::LocalSgd> local;
  if (method.outer) local.emplace(me, parameters.values, *method.outer, week21::ring_all_reduce);
  const week21::AllReduce sum =
      method.outer ? week21::AllReduce{} : week21::compressed_all_reduce(me, parameters, method.how);
  const std::uint64_t sent = ledger_of(me).traffic.bytes_sent;
  const double began = me.now();
  for (int step = 0; step < o.steps; ++step) {
    replica.load(corpus.batch(static_cast<std::size_t>(step), static_cast<std::size_t>(o.batch), config.context, seed)
                     .rows(shard.offset, shard.size));
    replica.pass();
    if (!local) week21::average(me, parameters.gradients, sum);
    const double rate = week21::rate_at({.peak = o.rate, .warmup = 20, .steps = o.steps}, step);
    finish_step(me, replica.gpt, replica.optimizer, replica.scalars, {static_cast<float>(rate), 1});
    if (local) local->step_done();
  }
  if (local) local->finish();
  const RankLedger ledger = ledger_of(me);
  const double seconds = me.now() - began;
  const double loss = replica.validation_loss(corpus);
  fill(me, replica.scalars.squares, 0);
  add_squares(me, replica.scalars.squares, parameters.values);
  return {loss, static_cast<double>(ledger.traffic.bytes_sent - sent) / o.steps, seconds / o.steps,
          static_cast<double>(ledger.memory.live_of(Category::optimizer)),
          static_cast<double>(read(me, replica.scalars.squares, 0))};
}

/// Seconds of a step without communication.
double compute_seconds(RunOptions options, LocalOptions o, const GptConfig& config, const Corpus& corpus, int ranks) {
  options.ranks = 1;
  o.steps = 5;
  o.batch /= ranks;
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    const double begin = me.now();
    Replica replica(me, config, 1, static_cast<std::size_t>(o.batch));
    replica.load(corpus.batch(0, static_cast<std::size_t>(o.batch), config.context, 1));
    const double made = me.now();
    for (int step = 0; step < o.steps; ++step) {
      replica.pass();
      finish_step(me, replica.gpt, replica.optimizer, replica.scalars, {1e-3f, 1});
    }
    return {made - begin, (me.now() - made) / o.steps};
  });
  return outcome.check().values[0][1];
}

struct Prediction {
  double bytes = 0, seconds = kNone;
};

Prediction predict(const Named& method, const week21::CostModel& link, int ranks, double elements, double compute) {
  if (method.outer)
    return {week21::local_sgd_bytes(*method.outer, ranks, elements),
            week21::local_sgd_seconds(*method.outer, link, ranks, elements, compute)};
  const double ring = compute + week21::ring_all_reduce_seconds(link, ranks, 4 * elements);
  return {week21::bytes_sent(method.how, ranks, elements), method.how.method == Method::ring ? ring : kNone};
}

void refuse_unequal_replicas(const Named& method, const Outcome& outcome) {
  for (const Values& seen : outcome.values)
    if (seen[kSquares] != outcome.values[0][kSquares])
      throw Error(Verdict::fail,
                  fmt::format("{}: the replicas differ: Σ θ² is {:.9g} on one rank and {:.9g} on another", method.name,
                              outcome.values[0][kSquares], seen[kSquares]));
}

void train_all(Bench& bench, const LocalOptions& o, int ranks) {
  if (ranks < 2 || o.batch % ranks != 0)
    throw Error(Verdict::usage, fmt::format("--batch {} sequences and --ranks {}: at least 2 ranks, with equal shares",
                                            o.batch, ranks));
  const Corpus corpus = Corpus::read(LOCKSTEP_SOURCE_DIR "/data/austen.txt", TokenKind::bytes);
  GptConfig config = gpt_preset(o.model);
  const RunOptions options = bench.run_options(ranks);
  if (options.phantom) throw Error(Verdict::usage, "--phantom: a loss needs real arithmetic; leave it out");
  const LinkPrices prices = bench.prices(ranks);
  const week21::CostModel link{prices.alpha, prices.beta, prices.gamma, prices.launch};
  const double compute = compute_seconds(options, o, config, corpus, ranks);
  const double elements = static_cast<double>(config.parameters());
  say("{} on {} ranks, {} of {}; a step computes {}\n{:>16} {:>10} {:>12} {:>12} {:>12} {:>12} "
      "{:>12}\n",
      o.model, ranks, counted(o.steps, "step"), counted(o.batch, "sequence"), format_seconds(compute), "method", "loss",
      "sent/step", "predicted", "step time", "predicted", "state");
  for (const Named& method : methods_of(o)) {
    const Outcome outcome = run(options, [&](Rank me) { return train(me, method, o, config, corpus); });
    outcome.check();
    refuse_unequal_replicas(method, outcome);
    const Values& seen = outcome.values[0];
    const Prediction said = predict(method, link, ranks, elements, compute);
    Row row;
    row.set("backend", backend_name()).set("machine", bench.has_machine() ? options.machine.name : "host");
    row.set("ranks", ranks).set("method", method.name).set("model", o.model);
    row.set("steps", o.steps).set("batch_sequences", o.batch).set("every", method.outer ? method.outer->every : 1);
    row.set("validation_loss", seen[kLoss]);
    row.set("bytes_sent_per_step", seen[kBytes]).set("predicted_bytes_sent_per_step", said.bytes);
    row.set("seconds_per_step", seen[kSeconds]).set("predicted_seconds_per_step", said.seconds);
    row.set("optimizer_bytes", seen[kStateBytes]);
    bench.report(row);
    say("{:>16} {:>10.3f} {:>12} {:>12} {:>12} {:>12} {:>12}\n", method.name, seen[kLoss], format_bytes(seen[kBytes]),
        format_bytes(said.bytes), format_seconds(seen[kSeconds]),
        std::isnan(said.seconds) ? "-" : format_seconds(said.seconds), format_bytes(seen[kStateBytes]));
  }
  say("communication takes at most {:g}% of the time from H = {} on\n", 100 * o.share,
      week21::least_every(link, ranks, elements, compute, o.share));
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::LocalOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--model", o.model, "a preset, as for ./lab train: tiny, small, …");
    line.add("--every", o.every, "local steps between two outer ones; separate several with commas");
    line.add("--steps", o.steps, "local training steps", Whole{1});
    line.add("--batch", o.batch, "sequences per step, over all ranks", Whole{2});
    line.add("--lr", o.rate, "learning rate of AdamW after 20 steps of warm-up, followed by a cosine", Real{1e-9, 10});
    line.add("--density", o.density, "share of the elements that top-k sends", Real{1e-6, 1});
    line.add("--outer-lr", o.outer_rate, "learning rate of DiLoCo's outer step", Real{1e-6, 10});
    line.add("--outer-momentum", o.outer_momentum, "DiLoCo's", Real{0, 0.999});
    line.add("--share", o.share,
             "largest acceptable share of time for communication: the smallest H that meets it is printed",
             Real{1e-6, 0.999});
    line.add("--seed", o.seed, "seed of the model and its batches", Whole{});
  };
  return bench::bench_main("local_sgd", "Bytes per step and loss: DDP, compressed all-reduces, local SGD and DiLoCo.",
                           argc, argv, declare, [&](bench::Bench& bench) {
                             for (const int ranks : bench.ranks()) bench::train_all(bench, o, ranks);
                             bench.run();
                           });
}

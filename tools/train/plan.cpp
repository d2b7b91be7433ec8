// From options to a plan: everything that can be refused is refused here, before a rank starts or a file is written.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "common/gpt/checkpoint/reader.hpp"
#include "common/gpt/model/model_file.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/support/host/host.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/units.hpp"
#include "labs/trainer/engine.hpp"
#include "labs/week22_zero/memory_calculator.hpp"
#include "tools/train/choices.hpp"
#include "tools/train/options.hpp"
#include "tools/train/phantom.hpp"
#include "tools/train/trainer.hpp"
#include "tools/train/weights.hpp"

namespace lockstep::train {

namespace {

GptConfig model_of(const TrainOptions& o, DType storage, std::size_t vocabulary) {
  GptConfig model = find_model(o.words.model);
  if (o.layers) model.layers = o.layers;
  if (o.d_model) model.d_model = o.d_model;
  if (o.heads) model.heads = o.heads;
  if (o.untied) model.tied_head = false;
  model.storage = storage;
  model.attention = attention_of(o.words.attention);
  model.context = std::max(model.context, o.sequence);
  // The models for one laptop know bytes; the published ones keep their vocabulary, of which a text may use a part.
  if (vocabulary && (model.vocabulary == 256 || model.vocabulary < vocabulary)) model.vocabulary = vocabulary;
  model.check();
  return model;
}

void check_training(const TrainOptions& o) {
  if (o.batch == 0) refuse("--batch counts at least 1");
  if (rate_rule_of(o.lr_scaling) != week21::RateRule::none && o.base_batch == 0)
    refuse(fmt::format("--lr-scaling {} needs --base-batch: the batch for which --lr is right", o.lr_scaling));
  if (o.base_batch && o.lr_scaling == "none") refuse("--base-batch is for --lr-scaling linear or sqrt");
  if (o.checkpoint_every && o.checkpoint.empty()) refuse("--checkpoint-every needs --checkpoint DIRECTORY");
  if (o.on_save_error != "go-on" && o.on_save_error != "stop")
    refuse(unknown_name("--on-save-error", o.on_save_error, std::array<std::string, 2>{"go-on", "stop"}));
  if (o.phantom && (!o.resume.empty() || !o.checkpoint.empty()))
    refuse("a phantom run has no values to save or resume");
  if (o.phantom && !o.init.empty()) refuse("a phantom run has no parameter values: leave out --init");
}

/// A directory that can be written to, and has no checkpoints of another run.
void check_checkpoints(const TrainOptions& o) {
  if (o.checkpoint.empty()) return;
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(o.checkpoint, error) && !fs::is_directory(o.checkpoint, error))
    refuse(fmt::format("--checkpoint {} is a file: checkpoints are directories", o.checkpoint));
  fs::create_directories(o.checkpoint, error);
  check_writable(o.checkpoint + "/any");
  checkpoint::Disk disk;
  const std::vector<int> steps = checkpoint::steps_in(disk, o.checkpoint);
  const fs::path resumed = fs::weakly_canonical(o.resume, error), here = fs::weakly_canonical(o.checkpoint, error);
  if (steps.empty() || (!o.resume.empty() && (resumed == here || resumed.parent_path() == here))) return;
  refuse(
      fmt::format("{} has a checkpoint of step {} already: --resume {} goes on from it; else choose another directory",
                  o.checkpoint, steps.front(), o.checkpoint));
}

/// Of each replica.
int ranks_of_replica(const TrainOptions& o) { return o.mesh.tp * o.mesh.pp * o.cp; }

/// --dp × --cp × --tp × --pp are the ranks: what is left out follows from the others.
int ranks_of(const TrainOptions& o, int available_ranks) {
  const auto [dp, tp, pp] = o.mesh;
  if (tp < 1 || pp < 1 || dp < 0 || o.cp < 1) refuse("--dp, --cp, --tp and --pp count at least 1");
  const int share = ranks_of_replica(o);
  const std::string and_cp = o.cp == 1 ? "" : fmt::format("--cp {} × ", o.cp);
  const int ranks = o.ranks ? o.ranks : dp ? dp * share : std::max(share, available_ranks);
  if (ranks % share != 0)
    refuse(fmt::format("--ranks {} is not a multiple of {}--tp {} × --pp {}: every replica needs as many ranks", ranks,
                       and_cp, tp, pp));
  if (dp && dp * share != ranks)
    refuse(fmt::format("--dp {} × {}--tp {} × --pp {} are {} ranks, not the {} of --ranks", dp, and_cp, tp, pp,
                       dp * share, ranks));
  return ranks;
}

/// Enough microbatches to fill a pipeline, where there are as many sequences.
int microbatches_of(const TrainOptions& o) {
  if (o.microbatches) return o.microbatches;
  if (o.mesh.pp == 1) return 1;
  const int most = static_cast<int>(o.batch / static_cast<std::size_t>(o.replicas())), stages = o.mesh.pp;
  return most >= stages ? std::min(4 * stages, most / stages * stages) : std::max(1, most);
}

/// In the words of the command line.
void check_reduce(const TrainOptions& o) {
  if ((o.zero == 1 || o.zero == 2) && o.reduce != o.model.storage)
    refuse(fmt::format(
        "--zero {} sums gradients in the type they are computed in: leave out --reduce, or take --zero 0 or 3",
        o.zero));
}

/// In the words of the command line.
void check_overlap(const TrainOptions& o) {
  if (o.overlap_scatter && o.no_overlap) refuse("--overlap-scatter with --no-overlap: leave one of them out");
  if (o.overlap_scatter && !o.sequence_parallel)
    refuse(
        "--overlap-scatter is for --sequence-parallel: without it the sums of --tp go on behind the products for "
        "weights anyway");
  if (!o.overlap_gather) return;
  if (o.no_overlap) refuse("--overlap-gather with --no-overlap: leave one of them out");
  if (o.zero == 0) refuse("--overlap-gather is for --zero 1 and 2: plain replicas gather no values");
  if (o.zero == 3) refuse("--overlap-gather is for --zero 1 and 2: 3 gathers values in each pass, --prefetch ahead");
}

week21::MakeAllReduce maker_of(const week21::Compression& compression) {
  if (compression.method == week21::Method::ring) return {};
  return [compression](Rank dp, const Parameters& parameters, week21::StepsDone steps) {
    return week21::compressed_all_reduce(dp, parameters, compression, std::move(steps));
  };
}

/// What --wrap cannot mean.
void check_zero(const Plan& plan) {
  const TrainOptions& o = plan.options;
  if (o.zero < 3) return;
  // The largest unit, gathered, with its gradients, must fit beside nothing else.
  const bool modelled = o.phantom || plan.run.emulate;
  const double memory = modelled ? plan.run.machine.memory_bytes : read_host().memory_bytes;
  for (const Unit& unit : week22::wrap(gpt_parameter_table(plan.options.part(0)), plan.options.wrapping)) {
    const double bytes = 2.0 * static_cast<double>(unit.size * bytes_of(plan.options.model.storage));
    if (memory > 0 && bytes > memory)
      refuse(
          fmt::format("the unit {} needs {} when it is gathered, values and gradients, and {} has {}: wrap smaller "
                      "units (--wrap layer)",
                      unit.name, format_bytes(bytes), modelled ? "a GPU of " + plan.run.machine.name : "this computer",
                      format_bytes(memory)));
  }
}

void predict_memory(Plan& plan) {
  if (is_folded(plan)) return;
  Memory& most = plan.training_peak;
  for (int stage = 0; stage < plan.options.mesh.pp; ++stage) {
    const Memory here = dry_run_memory(plan, stage);
    for (std::size_t c = 0; c < kCategories; ++c) {
      most.live[c] = std::max(most.live[c], here.live[c]);
      most.peak[c] = std::max(most.peak[c], here.peak[c]);
    }
    most.peak_total = std::max(most.peak_total, here.peak_total);
  }
  plan.peak = most;
  if (!plan.sample()) return;
  const auto at_least = [&](Category category, std::size_t bytes) {
    std::uint64_t& peak = plan.peak.peak[static_cast<std::size_t>(category)];
    peak = std::max<std::uint64_t>(peak, bytes);
  };
  const std::size_t element = bytes_of(plan.options.model.storage);
  if (plan.options.zero == 3)  // all gathered, beside the shards
    at_least(Category::parameter, most.live_of(Category::parameter) + plan.own_parameters() * element);
  at_least(Category::parameter, plan.options.model.parameters() * element);
  at_least(Category::activation, activation_bytes(plan.options.model, 1, plan.options.sequence));
}

/// GPUs have memory of their own, and say what is too much.
void check_memory(const Plan& plan) {
  const std::string_view backend = backend_name();
  if (backend == "cuda" || backend == "nccl") return;
  const auto rank = static_cast<double>(plan.training_peak.peak_total);
  const double here = read_host().memory_bytes;
  if (!plan.options.phantom && here > 0 && rank * plan.run.ranks > here)
    refuse(fmt::format("{} ranks of {} each do not fit in this computer's {}: choose a smaller model, or add --phantom",
                       plan.run.ranks, format_bytes(rank), format_bytes(here)));
}

/// What this program's backend does not have.
void check_backend(const TrainOptions& o) {
  const std::string_view backend = backend_name();
  const bool simulator = backend == "sim", gpu = backend == "cuda" || backend == "nccl", emulates = !o.emulate.empty();
  if (emulates && backend != "mpi")
    refuse(simulator ? "--emulate is for --backend mpi; the simulator always models --machine"
                     : "--emulate is for --backend mpi");
  if (!simulator && o.asks("--machine") && !emulates)
    refuse(fmt::format("--machine is for the simulator; --backend {} runs on this computer{}", backend,
                       backend == "mpi"
                           ? fmt::format(": --emulate {} delays operations to that machine's modelled times", o.machine)
                           : ""));
  if (o.tf32 && !gpu) refuse("--tf32 is for GPUs: --backend cuda or nccl");
  if (o.phantom && !simulator) refuse("--phantom is for the simulator: leave out --backend");
}

RunOptions run_options(const TrainOptions& o) {
  RunOptions run;
  run.ranks = o.mesh.ranks();
  const std::string folder = LOCKSTEP_SOURCE_DIR "/bench/machines";
  run.machine = find_machine(o.emulate.empty() ? o.machine : o.emulate, folder);
  run.phantom = o.phantom;
  run.check_races = o.check_races;
  run.poison = false;
  run.tf32 = o.tf32;
  run.trace = !o.trace.empty();
  run.threads = o.threads;
  run.emulate = !o.emulate.empty();
  // Rank 0 samples alone; ranks read checkpoints at their own pace, and a save waits for the one before.
  run.timeout_seconds = o.checkpoint.empty() && o.resume.empty() ? 60 : 600;
  return run;
}

}  // namespace

int ranks_asked_for(const TrainOptions& o) {
  const int ranks = ranks_of(o, 0);
  return o.ranks || o.mesh.dp || ranks > 1 ? ranks : 0;
}

std::size_t Plan::own_parameters() const {
  std::size_t most = 0;
  for (int stage = 0; stage < options.mesh.pp; ++stage) most = std::max(most, week25::stage_parameters(options, stage));
  return most;
}

std::vector<std::size_t> Plan::buckets() const {
  DryRun dry_run(run.machine);  // buckets are cuts of the flat gradient
  const Slice gradients = dry_run.rank().allocate(own_parameters(), options.model.storage, Category::gradient);
  std::vector<std::size_t> elements;
  for (const week21::Bucket& bucket :
       week21::bucket_layout({gpt_parameter_table(options.model), {}, gradients},
                             week25::bucket_options(options.bucket_bytes, options.overlap)))
    elements.push_back(bucket.gradients.size());
  return elements;
}

double Plan::compressed_bytes() const {
  using week21::Method;
  const double p = replicas(), block = static_cast<double>(compression.block);
  const double arrays = compression.method == Method::int8_two_step ? p : 1;
  week21::Compression all_that_is_chosen = compression;
  all_that_is_chosen.density = 1;
  double bytes = 0;
  for (const std::size_t elements : buckets()) {
    const bool chooses = compression.method == Method::top_k;
    const auto sent = static_cast<double>(chooses ? week21::top_k_count(elements, compression.density) : elements);
    bytes += week21::bytes_sent(all_that_is_chosen, replicas(), sent);
    if (chooses) continue;
    // The last block of an array, or of each of p chunks in two steps, is not full, and has a scale all the same.
    const double scales = arrays * std::ceil(std::ceil(sent / arrays) / block) - sent / block;
    bytes += (arrays > 1 ? 2 / p : 1) * (p - 1) * 4 * scales;
  }
  return bytes;
}

Plan make_plan(TrainOptions typed, int available_ranks) {
  Plan plan;
  TrainOptions& o = plan.options = std::move(typed);
  check_training(o);
  o.mesh.dp = ranks_of(o, available_ranks) / ranks_of_replica(o) * o.cp;
  if (o.asks("--schedule") && o.mesh.pp == 1)
    refuse(fmt::format("--schedule {} needs a pipeline: add --pp STAGES, or leave it out", o.schedule));
  check_backend(o);
  plan.run = run_options(o);
  const TokenKind tokens = token_kind_of(o.tokens);
  const bool any_bytes = o.phantom && o.data.empty() && tokens == TokenKind::bytes;  // whose vocabulary is known
  if (o.data.empty()) o.data = LOCKSTEP_SOURCE_DIR "/data/austen.txt";
  if (!any_bytes) plan.corpus = Corpus::read(o.data, tokens);
  const week22::Precision precision = precision_of(o);
  o.model = model_of(o, precision.compute, plan.corpus ? plan.corpus->vocabulary() : 0);
  if (o.phantom) plan.corpus.reset();  // of which a phantom run wants the vocabulary alone
  if (o.sequence == 0) o.sequence = o.model.context;
  if (plan.corpus) {
    plan.corpus->batch(0, 1, o.sequence, o.seed);  // refuses a text that is too short
    plan.corpus->validation_batch(0, 1, o.sequence);
  }
  o.loss_scale = loss_scale_of(o);
  plan.compression = compression_of(o);
  plan.outer = outer_of(o);
  o.local = plan.outer.has_value();
  o.recompute = recompute_of(o);
  o.microbatches = microbatches_of(o);
  const bool several = o.schedule == "interleaved" || o.schedule == "zb-v";
  if (o.chunks == 0) o.chunks = several && o.mesh.pp > 1 ? 2 : 1;
  o.wrapping = week25::parse_wrapping(o.words.wrap);
  o.overlap = !o.no_overlap;
  o.reduce = precision.reduce;
  o.make_all_reduce = maker_of(plan.compression);
  o.adamw = optimizer_of(o);
  check_reduce(o);
  check_overlap(o);
  week25::check(o);
  const std::size_t gradient_bytes = plan.own_parameters() * bytes_of(o.model.storage);
  o.bucket_bytes = o.words.bucket_bytes.empty() ? std::min(o.bucket_bytes, gradient_bytes / 8 + 1)
                                                : parse_bytes(o.words.bucket_bytes);
  if (o.bucket_bytes == 0) refuse("--bucket-bytes is at least 1");
  if (o.log_every == 0) o.log_every = std::max(1, o.steps / 20);
  if (plan.outer && !o.asks("--log-every"))  // whole rounds, so that each line has its part of an outer step
    o.log_every = (o.log_every + o.outer_steps - 1) / o.outer_steps * o.outer_steps;
  if (o.validate_every == 0) o.validate_every = std::max(1, o.steps / 4);
  // On every process: one that refused alone would leave others waiting.
  for (const std::string* path : {&o.csv, &o.trace, &o.json})
    if (!path->empty()) check_writable(*path);
  while (o.checkpoint.size() > 1 && o.checkpoint.ends_with('/')) o.checkpoint.pop_back();
  check_zero(plan);
  predict_memory(plan);
  check_memory(plan);
  if (!o.init.empty()) plan.initial = read_weights(o.model, o.init);
  check_checkpoints(plan.options);
  return plan;
}

std::vector<std::string> without_effect(const Plan& plan) {
  const TrainOptions& o = plan.options;
  const bool simulator = std::string_view(backend_name()) == "sim", one_replica = plan.replicas() == 1;
  std::vector<std::string> sentences;
  const auto say = [&](const char* option, bool useless, const std::string& why) {
    if (useless && o.asks(option)) sentences.push_back(fmt::format("{} does nothing here: {}", option, why));
  };
  const std::string alone = "there is one replica (--dp 1), with no other to ";
  say("--machine", simulator && plan.run.ranks == 1 && !o.phantom,
      "one rank is the serial program, on this computer's clock; --phantom simulates it");
  say("--zero", one_replica && o.zero > 0, alone + "divide the state with");
  say("--wrap", o.zero < 2, "units are for --zero 2 and 3");
  say("--prefetch", o.zero < 3, "only --zero 3 gathers values");
  say("--bucket-bytes", o.zero >= 2 || one_replica,
      one_replica ? alone + "average gradients with" : "ZeRO-2 and 3 reduce units (--wrap)");
  say("--no-overlap", one_replica && o.mesh.tp == 1, alone + "communicate with, and no --tp");
  say("--overlap-gather", one_replica, alone + "gather values from");
  say("--every-rank", !o.phantom || (o.mesh.tp == 1 && o.mesh.pp == 1), "every rank is simulated anyway");
  say("--check-races", !simulator || o.phantom, "the race checker needs the simulator, with real memory");
  say("--loss-scale-interval", !plan.options.loss_scale, "only gradients in fp16 have a loss scale");
  return sentences;
}

bool is_folded(const Plan& plan) {
  return plan.options.phantom && !plan.options.every_rank && (plan.options.mesh.tp > 1 || plan.options.mesh.pp > 1);
}

}  // namespace lockstep::train

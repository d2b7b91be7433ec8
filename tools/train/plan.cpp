// From options to a plan: everything that can be refused is refused here, before a rank starts or a file is written.
#include "tools/train/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "common/gpt/checkpoint/reader.hpp"
#include "common/gpt/data/model_file.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/support/host/host.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/units.hpp"
#include "labs/trainer/engine.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week22_zero/memory_calculator.hpp"
#include "labs/week22_zero/sharding_policy.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "tools/train/choices.hpp"
#include "tools/train/dropout.hpp"
#include "tools/train/expert_layers.hpp"
#include "tools/train/phantom.hpp"
#include "tools/train/trainer.hpp"
#include "tools/train/weights.hpp"

namespace lockstep::train {

namespace {

GptConfig model_of(const TrainRequest& r, DType storage, std::size_t vocabulary) {
  GptConfig model = r.model == "tiny-moe" ? tiny_mixture() : find_model(r.model);
  if (r.layers) model.layers = r.layers;
  if (r.d_model) model.d_model = r.d_model;
  if (r.heads) model.heads = r.heads;
  if (r.untied) model.tied_head = false;
  model.storage = storage;
  model.fp32_gradients = r.fp32_gradients;
  model.attention = attention_of(r.attention);
  model.context = std::max(model.context, r.sequence);
  // The models for one laptop know bytes; the published ones keep their vocabulary, of which a text may use a part.
  if (vocabulary && (model.vocabulary == 256 || model.vocabulary < vocabulary)) model.vocabulary = vocabulary;
  model.check();
  return model;
}

void check_training(const TrainRequest& r) {
  if (r.batch == 0) refuse("--batch must be at least 1");
  if (rate_rule_of(r.lr_scaling) != week21::RateRule::none && r.base_batch == 0)
    refuse(fmt::format("--lr-scaling {} needs --base-batch, the batch for which --lr is right", r.lr_scaling));
  if (r.base_batch && r.lr_scaling == "none") refuse("--base-batch is for --lr-scaling linear or sqrt");
  if (r.checkpoint_every && r.checkpoint.empty()) refuse("--checkpoint-every needs --checkpoint DIRECTORY");
  check_known("--on-save-error", r.on_save_error, std::array<std::string, 2>{"continue", "stop"});
  if (r.phantom && (!r.resume.empty() || !r.checkpoint.empty()))
    refuse("a phantom run has no parameters to save or resume");
  if (r.phantom && !r.init.empty()) refuse("a phantom run has no parameters: leave out --init");
}

/// A directory that can be written to, and has no checkpoints of another run.
void check_checkpoints(const TrainPlan& plan) {
  const std::string &directory = plan.checkpoint, &resume = plan.request.resume;
  if (directory.empty()) return;
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(directory, error) && !fs::is_directory(directory, error))
    refuse(fmt::format("--checkpoint {} is a file: checkpoints are directories", directory));
  fs::create_directories(directory, error);
  check_writable(directory + "/any");
  checkpoint::Disk disk;
  const std::vector<int> steps = checkpoint::steps_in(disk, directory);
  const fs::path resumed = fs::weakly_canonical(resume, error), here = fs::weakly_canonical(directory, error);
  if (steps.empty() || (!resume.empty() && (resumed == here || resumed.parent_path() == here))) return;
  refuse(fmt::format(
      "{} already has a checkpoint of step {}: continue from it with --resume {}, or choose another directory",
      directory, steps.front(), directory));
}

/// --dp × --cp × --tp × --pp are the ranks: an omitted one follows from the others.
week25::MeshShape mesh_of(const TrainRequest& r, int available_ranks) {
  const int dp = r.dp, tp = r.tp, pp = r.pp;
  if (tp < 1 || pp < 1 || dp < 0 || r.cp < 1) refuse("--dp, --cp, --tp and --pp must be at least 1");
  const int share = r.cp * tp * pp;
  const std::string and_cp = r.cp == 1 ? "" : fmt::format("--cp {} × ", r.cp);
  const int ranks = r.ranks ? r.ranks : dp ? dp * share : std::max(share, available_ranks);
  if (ranks % share != 0)
    refuse(fmt::format("--ranks {} is not a multiple of {}--tp {} × --pp {}: every replica needs as many ranks", ranks,
                       and_cp, tp, pp));
  if (dp && dp * share != ranks)
    refuse(fmt::format("--dp {} × {}--tp {} × --pp {} are {} ranks, not the {} of --ranks", dp, and_cp, tp, pp,
                       dp * share, ranks));
  return {.dp = ranks / (tp * pp), .tp = tp, .pp = pp};
}

/// Enough microbatches to fill a pipeline, where there are as many sequences.
int microbatches_of(const TrainRequest& r, int replicas) {
  if (r.microbatches) return r.microbatches;
  if (r.pp == 1) return 1;
  const int most = static_cast<int>(r.batch / static_cast<std::size_t>(replicas)), stages = r.pp;
  return most >= stages ? std::min(4 * stages, most / stages * stages) : std::max(1, most);
}

int chunks_of(const TrainRequest& r) {
  const bool several = r.schedule == "interleaved" || week24::in_a_vee(r.schedule);
  return r.chunks ? r.chunks : several && r.pp > 1 ? 2 : 1;
}

/// In the words of the command line.
void check_reduce(const week25::Options3d& o) {
  if (o.zero >= 2 && o.model.gradients() != o.model.storage)
    refuse(fmt::format(
        "--fp32-gradients with --zero {}: a unit's gradients have the type of its parameters until they are "
        "reduced; use --zero 0 or 1{}",
        o.zero, o.zero == 3 ? ", or sum in fp32 (--reduce fp32)" : ""));
  if ((o.zero == 1 || o.zero == 2) && o.reduce != o.model.gradients())
    refuse(fmt::format("--zero {} sums gradients in the type they are held in, {}: leave out --reduce, or use {}",
                       o.zero, to_string(o.model.gradients()),
                       o.zero == 1 ? "--fp32-gradients, or --zero 0 or 3" : "--zero 0 or 3"));
}

/// In the words of the command line.
void check_overlap(const TrainRequest& r) {
  if (r.overlap_scatter && r.no_overlap) refuse("--overlap-scatter with --no-overlap: leave one of them out");
  if (r.overlap_scatter && !r.sequence_parallel)
    refuse(
        "--overlap-scatter is for --sequence-parallel: without it the all-reduces of --tp overlap the weight gradients "
        "anyway");
  if (!r.overlap_gather) return;
  if (r.no_overlap) refuse("--overlap-gather with --no-overlap: leave one of them out");
  if (r.zero == 0) refuse("--overlap-gather is for --zero 1 and 2: plain replicas gather no parameters");
  if (r.zero == 3)
    refuse("--overlap-gather is for --zero 1 and 2: stage 3 gathers parameters in each pass, --prefetch units ahead");
}

/// In the words of the command line.
void check_mixture(const TrainRequest& r, const week25::Options3d& o) {
  if (!o.has_experts()) {
    if (r.capacity_factor > 0 || r.balance_loss > 0)
      refuse("--capacity-factor and --balance-loss are for experts, which only --model tiny-moe has");
    return;
  }
  const std::pair<bool, const char*> unsupported[] = {{r.tp > 1, "--tp"},
                                                      {r.pp > 1, "--pp"},
                                                      {r.cp > 1, "--cp"},
                                                      {r.zero > 0, "--zero"},
                                                      {!r.compress.empty(), "--compress"},
                                                      {r.outer_steps > 0, "--outer-steps"},
                                                      {r.recompute != "none", "--recompute"},
                                                      {r.precision != "fp32", "--precision"},
                                                      {o.reduce != DType::f32, "--reduce"},
                                                      {r.phantom, "--phantom"},
                                                      {!r.init.empty(), "--init"}};
  for (const auto& [asked, option] : unsupported)
    if (asked)
      refuse(
          fmt::format("{} with --model {}: experts are shared by plain replicas, in fp32, and routed by real values; "
                      "leave out {}",
                      option, r.model, option));
  if (!r.explain_as.empty())
    refuse(fmt::format(
        "--explain-as with --model {}: the printed programs have no experts; in Megatron-LM, see --num-experts and "
        "--moe-router-topk",
        r.model));
  if (o.model.architecture.mlp != MlpKind::gelu)
    refuse(fmt::format(
        "--model {}: ./lab train has experts with GELU (tiny-moe); ./lab plan and memory know this model", r.model));
  const std::size_t experts = o.model.architecture.experts;
  if (experts % static_cast<std::size_t>(o.mesh.dp) != 0)
    refuse(fmt::format("{} experts do not divide over {} replicas, which share them", experts, o.mesh.dp));
}

week21::MakeAllReduce maker_of(const week21::Compression& compression) {
  if (compression.method == week21::Method::ring) return {};
  return [compression](Rank dp, const Parameters& parameters, week21::StepsDone steps) {
    return week21::compressed_all_reduce(dp, parameters, compression, std::move(steps));
  };
}

/// Refuses a --wrap whose largest unit does not fit.
void check_zero(const TrainPlan& plan) {
  if (plan.step.zero < 3) return;
  // The largest unit, gathered, with its gradients, must fit on its own.
  const bool modelled = plan.request.phantom || plan.run.emulate;
  const double memory = modelled ? plan.run.machine.memory_bytes : read_host().memory_bytes;
  for (const Unit& unit : week22::wrap(gpt_parameter_table(plan.step.part(0)), plan.step.wrapping)) {
    const double bytes = 2.0 * static_cast<double>(unit.size * bytes_of(plan.step.model.storage));
    if (memory > 0 && bytes > memory)
      refuse(
          fmt::format("the unit {} needs {} for its parameters and gradients when it is gathered, but {} has {}: wrap "
                      "smaller units (--wrap layer)",
                      unit.name, format_bytes(bytes), modelled ? "a GPU of " + plan.run.machine.name : "this computer",
                      format_bytes(memory)));
  }
}

void predict_memory(TrainPlan& plan) {
  if (is_folded(plan)) return;
  Memory& most = plan.training_peak;
  for (int stage = 0; stage < plan.step.mesh.pp; ++stage) {
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
  const std::size_t element = bytes_of(plan.step.model.storage);
  if (plan.step.zero == 3)  // all gathered, in addition to the shards
    at_least(Category::parameter, most.live_of(Category::parameter) + plan.own_parameters() * element);
  at_least(Category::parameter, plan.step.model.parameters() * element);
  at_least(Category::activation, activation_bytes(plan.step.model, 1, plan.step.sequence));
}

/// GPUs have memory of their own, and report when it runs out.
void check_memory(const TrainPlan& plan) {
  const std::string_view backend = backend_name();
  if (backend == "cuda" || backend == "nccl") return;
  const auto rank = static_cast<double>(plan.training_peak.peak_total);
  const double here = read_host().memory_bytes;
  if (!plan.request.phantom && here > 0 && rank * plan.run.ranks > here)
    refuse(fmt::format("{} ranks of {} each do not fit in this computer's {}: choose a smaller model, or add --phantom",
                       plan.run.ranks, format_bytes(rank), format_bytes(here)));
}

/// Refuses options that this program's backend does not have.
void check_backend(const TrainRequest& r) {
  const std::string_view backend = backend_name();
  const bool simulator = backend == "sim", gpu = backend == "cuda" || backend == "nccl", emulates = !r.emulate.empty();
  if (emulates && backend != "mpi")
    refuse(simulator ? "--emulate is for --backend mpi; the simulator always models --machine"
                     : "--emulate is for --backend mpi");
  if (!simulator && r.asks("--machine") && !emulates)
    refuse(fmt::format("--machine is for the simulator; --backend {} runs on this computer{}", backend,
                       backend == "mpi"
                           ? fmt::format(": --emulate {} delays operations to that machine's modelled times", r.machine)
                           : ""));
  if (r.tf32 && !gpu) refuse("--tf32 is for GPUs: --backend cuda or nccl");
  if (r.phantom && !simulator) refuse("--phantom is for the simulator: leave out --backend");
}

/// Refuses --load-rate and --load-ahead where a loader takes no time, or cannot load while its rank computes.
void check_loading(const TrainPlan& plan) {
  const TrainRequest& r = plan.request;
  const std::string_view backend = backend_name();
  const char* option = r.load_ahead > 0 ? "--load-ahead" : "--load-rate";
  if (r.load_ahead == 0 && r.load_rate == 0) return;
  if (backend != "sim" && backend != "mpi")
    refuse(fmt::format("{} is for the simulator and MPI: on GPUs, what only loads may hold up its rank's own work",
                       option));
  if (backend == "sim" && plan.run.ranks == 1 && !r.phantom)
    refuse(
        fmt::format("{} needs virtual time or a thread of its own, which the serial program lacks: add --ranks 2, "
                    "--phantom or --backend mpi",
                    option));
  if (is_folded(plan))
    refuse(
        fmt::format("{} with --phantom and --tp or --pp: the one step that is simulated loads nothing; add "
                    "--every-rank",
                    option));
}

RunOptions run_options(const TrainRequest& r, int ranks) {
  RunOptions run;
  run.ranks = ranks;
  const std::string folder = LOCKSTEP_SOURCE_DIR "/bench/machines";
  run.machine = find_machine(r.emulate.empty() ? r.machine : r.emulate, folder);
  run.phantom = r.phantom;
  run.check_races = r.check_races;
  run.poison = false;
  run.tf32 = r.tf32;
  run.trace = !r.trace.empty();
  run.threads = r.threads;
  run.emulate = !r.emulate.empty();
  // Rank 0 samples alone; ranks read checkpoints at their own pace, and a save waits for the one before.
  run.timeout_seconds = r.checkpoint.empty() && r.resume.empty() ? 60 : 600;
  return run;
}

/// Returns the size of the vocabulary that the text needs; 0: any. A phantom run keeps no text.
std::size_t read_text(TrainPlan& plan) {
  const TrainRequest& r = plan.request;
  const TokenKind tokens = token_kind_of(r.tokens);
  plan.data = r.data.empty() ? LOCKSTEP_SOURCE_DIR "/data/austen.txt" : r.data;
  if (r.phantom && r.data.empty() && tokens == TokenKind::bytes) return 0;  // the model's own will do
  Corpus corpus = Corpus::read(plan.data, tokens);
  const std::size_t vocabulary = corpus.vocabulary();
  if (!r.phantom) plan.corpus = std::move(corpus);
  return vocabulary;
}

std::size_t most_parameters(const week25::Options3d& o) {
  std::size_t most = 0;
  for (int stage = 0; stage < o.mesh.pp; ++stage) most = std::max(most, week25::stage_parameters(o, stage));
  return most;
}

/// The step that is asked for, on this mesh.
week25::Options3d step_of(const TrainPlan& plan, const week25::MeshShape& mesh, std::size_t vocabulary) {
  const TrainRequest& r = plan.request;
  const week22::Precision precision = precision_of(r);
  week25::Options3d o;
  o.model = model_of(r, precision.compute, vocabulary);
  o.mesh = mesh;
  o.cp = r.cp;
  o.batch = r.batch;
  o.sequence = r.sequence ? r.sequence : o.model.context;
  o.seed = r.seed;
  o.schedule = r.schedule;
  o.chunks = chunks_of(r);
  o.microbatches = microbatches_of(r, o.replicas());
  o.sequence_parallel = r.sequence_parallel;
  o.overlap = !r.no_overlap;
  o.overlap_scatter = r.overlap_scatter;
  o.overlap_gather = r.overlap_gather;
  o.zero = r.zero;
  o.shard_group = r.shard_group;
  o.prefetch = r.prefetch;
  o.wrapping = week25::parse_wrapping(r.wrap);
  o.recompute = recompute_of(r);
  o.loss_scale = loss_scale_of(r);
  o.loss_scale_interval = r.loss_scale_interval;
  o.reduce = precision.reduce;
  o.make_all_reduce = maker_of(plan.compression);
  o.local = plan.outer.has_value();
  o.adamw = optimizer_of(r);
  o.dropout = dropout_code(r.dropout);
  if (o.has_experts())
    o.mixture = mixture_code({r.capacity_factor, static_cast<float>(r.balance_loss) * week25::token_factor(o)});
  check_mixture(r, o);
  check_reduce(o);
  check_overlap(r);
  week25::check(o);
  const std::size_t gradient_bytes = most_parameters(o) * bytes_of(o.model.gradients());
  o.bucket_bytes =
      r.bucket_bytes.empty() ? std::min(o.bucket_bytes, gradient_bytes / 8 + 1) : parse_bytes(r.bucket_bytes);
  if (o.bucket_bytes == 0) refuse("--bucket-bytes must be at least 1");
  return o;
}

int log_every_of(const TrainRequest& r) {
  const int every = r.log_every ? r.log_every : std::max(1, r.steps / 20);
  if (r.outer_steps == 0 || r.asks("--log-every")) return every;
  return (every + r.outer_steps - 1) / r.outer_steps * r.outer_steps;  // each line has its part of an outer step
}

}  // namespace

int ranks_asked_for(const TrainRequest& r) {
  const int ranks = mesh_of(r, 0).ranks();
  return r.ranks || r.dp || ranks > 1 ? ranks : 0;
}

std::size_t TrainPlan::own_parameters() const { return most_parameters(step); }

std::vector<std::size_t> TrainPlan::buckets() const {
  DryRun dry_run(run.machine);  // buckets are cuts of the flat gradient
  const Slice gradients = dry_run.rank().allocate(own_parameters(), step.model.gradients(), Category::gradient);
  std::vector<std::size_t> elements;
  for (const week21::Bucket& bucket : week21::bucket_layout({gpt_parameter_table(step.model), {}, gradients},
                                                            week25::bucket_options(step.bucket_bytes, step.overlap)))
    elements.push_back(bucket.gradients.size());
  return elements;
}

double TrainPlan::compressed_bytes() const {
  using week21::Method;
  const double p = step.data_ranks(), block = static_cast<double>(compression.block);
  const bool mixed = compression.method == Method::mixed, chooses = mixed || compression.method == Method::top_k;
  week21::Compression chosen = compression, rounded = compression;
  chosen.method = Method::top_k, chosen.density = 1;
  if (mixed) rounded.method = Method::int8_two_step;
  const double arrays = rounded.method == Method::int8_two_step ? p : 1;
  double bytes = 0;
  for (const std::size_t elements : buckets()) {
    const auto all = static_cast<double>(elements);
    if (chooses)
      bytes += week21::bytes_sent(chosen, step.data_ranks(),
                                  static_cast<double>(week21::top_k_count(elements, compression.density)));
    if (compression.method == Method::top_k) continue;
    bytes += week21::bytes_sent(rounded, step.data_ranks(), all);
    // The last block of an array, or of each of p chunks in two steps, is not full, and has a scale all the same.
    const double scales = arrays * std::ceil(std::ceil(all / arrays) / block) - all / block;
    bytes += (arrays > 1 ? 2 / p : 1) * (p - 1) * 4 * scales;
  }
  return bytes;
}

TrainPlan make_plan(const TrainRequest& r, int available_ranks) {
  check_training(r);
  const week25::MeshShape mesh = mesh_of(r, available_ranks);
  if (r.asks("--schedule") && r.pp == 1)
    refuse(fmt::format("--schedule {} needs a pipeline: add --pp STAGES, or leave out --schedule", r.schedule));
  check_backend(r);
  TrainPlan plan{.request = r, .run = run_options(r, mesh.ranks())};
  const std::size_t vocabulary = read_text(plan);
  check_loading(plan);
  plan.compression = compression_of(r, mesh.dp);
  plan.outer = outer_of(r, mesh.dp);
  plan.step = step_of(plan, mesh, vocabulary);
  if (plan.corpus) {
    plan.corpus->batch(0, 1, plan.step.sequence, r.seed);  // refuses a text that is too short
    plan.corpus->validation_batch(0, 1, plan.step.sequence);
  }
  plan.log_every = log_every_of(r);
  plan.validate_every = r.validate_every ? r.validate_every : std::max(1, r.steps / 4);
  // On every process: one that refused alone would leave others waiting.
  for (const std::string* path : {&r.csv, &r.trace, &r.json})
    if (!path->empty()) check_writable(*path);
  plan.checkpoint = r.checkpoint;
  while (plan.checkpoint.size() > 1 && plan.checkpoint.ends_with('/')) plan.checkpoint.pop_back();
  check_zero(plan);
  predict_memory(plan);
  check_memory(plan);
  if (!r.init.empty()) plan.initial = read_weights(plan.step.model, r.init);
  check_checkpoints(plan);
  return plan;
}

std::vector<std::string> without_effect(const TrainPlan& plan) {
  const TrainRequest& r = plan.request;
  const bool simulator = std::string_view(backend_name()) == "sim", one_replica = plan.step.data_ranks() == 1;
  std::vector<std::string> sentences;
  const auto say = [&](const char* option, bool useless, const std::string& why) {
    if (useless && r.asks(option)) sentences.push_back(fmt::format("{} has no effect here: {}", option, why));
  };
  const std::string alone = "there is one replica (--dp 1), with no other to ";
  say("--machine", simulator && plan.run.ranks == 1 && !r.phantom,
      "one rank is the serial program, on this computer's clock; --phantom simulates it");
  say("--zero", one_replica && r.zero > 0, alone + "divide the state with");
  say("--wrap", r.zero < 2, "units are for --zero 2 and 3");
  say("--prefetch", r.zero < 3, "only --zero 3 gathers parameters");
  say("--bucket-bytes", r.zero >= 2 || one_replica,
      one_replica ? alone + "average gradients with" : "ZeRO-2 and 3 reduce units (--wrap)");
  say("--no-overlap", one_replica && r.tp == 1, alone + "communicate with, and no --tp");
  say("--overlap-gather", one_replica, alone + "gather parameters from");
  say("--every-rank", !r.phantom || (r.tp == 1 && r.pp == 1), "every rank is simulated anyway");
  say("--check-races", !simulator || r.phantom, "the race checker needs the simulator, with real memory");
  say("--loss-scale-interval", !plan.step.loss_scale, "only gradients in fp16 have a loss scale");
  return sentences;
}

bool is_folded(const TrainPlan& plan) {
  return plan.request.phantom && !plan.request.every_rank && (plan.request.tp > 1 || plan.request.pp > 1);
}

}  // namespace lockstep::train

// The command line of ./lab train.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "common/run.hpp"
#include "common/text/option_words.hpp"
#include "tools/train/options.hpp"

namespace lockstep::train {

namespace {

/// Options that do nothing in some runs: who typed one then hears of it (options.hpp).
constexpr std::array<const char*, 10> kMayDoNothing = {
    "--machine",    "--schedule",    "--zero",         "--wrap",       "--prefetch",
    "--every-rank", "--check-races", "--bucket-bytes", "--no-overlap", "--loss-scale-interval"};

/// The parser's words for a line that is no option of ours, in ours.
std::string unknown_line(const CLI::App& app, const std::string& said) {
  const std::string before = "INI was not able to parse ";
  if (!said.starts_with(before)) return said;
  const std::string line = said.substr(before.size());
  std::vector<const CLI::Option*> all;
  option_words::add_options(app, all);
  return option_words::unexpected({"--" + line}, all);
}

void add_model_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Model");
  group->add_option("--model", o.model, "tiny, small, gpt2-124m, gpt2-355m, …, gpt3-175b, gpt-1t")
      ->capture_default_str();
  group->add_option("--layers", o.layers, "Instead of the model's")->check(whole_number(1));
  group->add_option("--d-model", o.d_model, "Instead of the model's")->check(whole_number(1));
  group->add_option("--heads", o.heads, "Instead of the model's")->check(whole_number(1));
  group->add_flag("--untied", o.untied, "A head of its own, not the token embedding");
  group->add_option("--attention", o.attention, "flash, or materialised: with all its probabilities in memory")
      ->capture_default_str();
}

void add_text_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Text");
  group->add_option("--data", o.data, "A text, or a token file as llm.c writes them (default: data/austen.txt)");
  group->add_option("--tokens", o.tokens, "byte or char")->capture_default_str();
}

void add_training_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Training");
  group->add_option("--steps", o.steps, "Optimizer steps")->capture_default_str()->check(whole_number(1));
  group->add_option("--batch", o.batch, "Sequences of the global batch, the same for any number of ranks")
      ->capture_default_str()
      ->check(whole_number(1));
  group->add_option("--sequence", o.sequence, "Tokens of a sequence (default: the model's context)")
      ->check(whole_number(1));
  group
      ->add_option("--microbatches,--accumulate", o.accumulate,
                   "Of a replica and step (default: 1; of a pipeline four a stage)")
      ->check(whole_number(1));
  group->add_option("--lr", o.learning_rate, "Learning rate after warm-up")->capture_default_str();
  group
      ->add_option("--optimizer", o.optimizer,
                   "adamw, or sgd: gradient descent with momentum 0.9 (the mean of gradients); its --lr is about 1")
      ->capture_default_str();
  group
      ->add_option("--lr-scaling", o.lr_scaling,
                   "With --base-batch: none, linear or sqrt: the rate grows with the batch, and warm-up begins at --lr")
      ->capture_default_str();
  group->add_option("--base-batch", o.base_batch, "Sequences of the batch for which --lr is right")
      ->check(whole_number(1));
  group->add_option("--warmup", o.warmup, "Steps of linear warm-up")->capture_default_str()->check(whole_number(0));
  group->add_option("--weight-decay", o.weight_decay, "Of matrices and embeddings (default: 0.1; of sgd none)");
  group->add_option("--clip", o.clip, "Largest gradient norm; 0: any")->capture_default_str();
  group->add_option("--seed", o.seed, "Of initial values and of the order of the text")
      ->capture_default_str()
      ->check(whole_number(0));
}

void add_memory_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Precision and memory");
  group
      ->add_option("--precision", o.precision,
                   "fp32, bf16 or fp16, of values, activations and gradients; AdamW keeps fp32")
      ->capture_default_str();
  group->add_option("--reduce", o.reduce, "Type in which gradients are summed over ranks (default: --precision)");
  group->add_option("--loss-scale", o.loss_scale, "Of fp16: dynamic (from 65536), a power of two to begin with, or off")
      ->capture_default_str();
  group->add_option("--loss-scale-interval", o.loss_scale_interval, "Good steps after which the scale doubles")
      ->capture_default_str()
      ->check(whole_number(1));
  group
      ->add_option("--recompute", o.recompute,
                   "In the backward: none; selective, probabilities of materialised attention; full, whole blocks")
      ->capture_default_str();
}

void add_parallelism_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Parallelism");
  group->add_option("--dp", o.dp, "Replicas (default: --ranks / --tp / --pp)")->check(whole_number(1));
  group->add_option("--tp", o.tp, "Ranks that share every layer")->capture_default_str()->check(whole_number(1));
  group->add_option("--pp", o.pp, "Stages of a pipeline")->capture_default_str()->check(whole_number(1));
  group->add_option("--schedule", o.schedule, "Of the pipeline: naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2")
      ->capture_default_str();
  group->add_option("--chunks", o.chunks, "Of a stage, for interleaved (default: 2)")->check(whole_number(1));
  group->add_flag("--sequence-parallel", o.sequence_parallel, "With --tp: norms and residuals on cut rows too");
}

void add_data_parallelism_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Data parallelism");
  group->add_option("--bucket-bytes", o.bucket_bytes,
                    "Of a gradient bucket (default: 25MiB, or an eighth of the gradients)");
  group->add_option("--zero", o.zero, "Stage: 0 plain, 1 shards optimizer state, 2 gradients too, 3 values too")
      ->capture_default_str();
  group->add_option("--wrap", o.wrap, "Units of stages 2 and 3: model, block, layer, or a least number of elements")
      ->capture_default_str();
  group->add_option("--prefetch", o.prefetch, "Stage 3: units gathered ahead")
      ->capture_default_str()
      ->check(whole_number(0));
  group->add_flag("--no-overlap", o.no_overlap, "All-reduce on the main queue");
  group->add_option("--compress", o.compress,
                    "Gradients: topk:0.01 (that share of a bucket's elements), int8, or int8-two-step (default: none)");
  group->add_flag("--no-feedback", o.no_feedback, "With --compress topk: forget what was not sent");
}

void add_machine_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Machine");
  group->add_option("--machine", o.machine, "What the simulator prices with: a name in bench/machines")
      ->capture_default_str();
  group->add_option("--emulate", o.emulate, "MPI: last as long as on this machine");
  group->add_flag("--phantom", o.phantom,
                  "Simulator: prices only, no memory, no arithmetic. Of a mesh with --tp or --pp one step, for which "
                  "one rank a stage is simulated: the others do the same");
  group->add_flag("--every-rank", o.every_rank, "With --phantom: simulate all ranks of a mesh");
  group->add_flag("--tf32", o.tf32, "GPUs: products of fp32 round their operands to 10 bits, for tensor cores");
  group->add_flag("--check-races", o.check_races, "Simulator: look for races, slower");
  group->add_option("--threads", o.threads, "Of arithmetic, each rank (default: the usable cores)")
      ->check(whole_number(1));
}

void add_output_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Output");
  group->add_option("--log-every", o.log_every, "Steps between log lines (default: a twentieth)")
      ->check(whole_number(1));
  group->add_option("--validate-every", o.validate_every, "Steps between validations (default: a quarter)")
      ->check(whole_number(1));
  group->add_option("--sample", o.sample, "Tokens of text to write at the end; 0: none")
      ->capture_default_str()
      ->check(whole_number(0));
  group->add_option("--prompt", o.prompt, "What the sample begins with (default: a line of the text)");
  group->add_option("--csv", o.csv, "One row a step");
  group->add_option("--json", o.json, "The result with its context");
  group->add_option("--trace", o.trace, "A timeline: Perfetto JSON, or an SVG chart where the name ends in .svg");
}

void add_checkpoint_options(CLI::App& app, TrainOptions& o) {
  CLI::Option_group* group = app.add_option_group("Checkpoints");
  group->add_option("--checkpoint", o.checkpoint,
                    "A directory for checkpoints, written while training goes on; the last two are kept");
  group->add_option("--checkpoint-every", o.checkpoint_every, "Steps between them (default: one, at the end)")
      ->check(whole_number(1));
  group->add_option("--resume", o.resume,
                    "Go on, up to --steps in all, from the last whole checkpoint of a directory, on any ranks");
  group->add_option("--on-save-error", o.on_save_error, "When a checkpoint cannot be written: go-on, or stop the run")
      ->capture_default_str();
}

/// "serial" is this program too, with one rank.
void check_backend(const std::string& backend, TrainOptions& o) {
  if (backend != backend_name() && backend != "serial")
    throw CLI::ValidationError(
        fmt::format("this program runs on {}: ./lab train --backend {} starts the other", backend_name(), backend));
  if (backend != "serial") return;
  if (o.ranks > 1 || o.dp > 1 || o.tp > 1 || o.pp > 1)
    throw CLI::ValidationError(
        "serial means one rank: leave out --ranks, --dp, --tp and --pp, or choose another backend");
  o.ranks = 1;
}

}  // namespace

std::optional<int> parse(int argc, char** argv, TrainOptions& o) {
  CLI::App app("Trains a GPT on text: serial on one rank, data-parallel on several.", "lab train");
  std::string backend = backend_name();
  app.set_help_flag("-h,--help", "This text");
  app.set_config("--config", "", "A file of these options, a line each: steps = 100 (the command line goes before it)");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--backend", backend, "sim, mpi, cuda, nccl, or serial: one rank and all cores (default)");
  app.add_option("--ranks", o.ranks,
                 "Ranks: --dp × --tp × --pp; 1 is the serial program (default: these; under mpirun, all)")
      ->check(whole_number(1));
  add_model_options(app, o);
  add_text_options(app, o);
  add_training_options(app, o);
  add_memory_options(app, o);
  add_parallelism_options(app, o);
  add_data_parallelism_options(app, o);
  add_machine_options(app, o);
  add_output_options(app, o);
  add_checkpoint_options(app, o);
  try {
    app.parse(argc, argv);
    check_backend(backend, o);
    for (const char* name : kMayDoNothing)
      if (app.get_option(name)->count() > 0) o.typed.emplace_back(name);
  } catch (const CLI::ConfigError& error) {
    if (is_judge())
      fmt::print(stderr, "lab train: {}: {} Every line is an option without its dashes.\n",
                 app.get_config_ptr()->as<std::string>(), unknown_line(app, error.what()));
    return 2;
  } catch (const CLI::ParseError& error) {
    const bool help = error.get_exit_code() == 0;
    if (is_judge()) {
      if (help)
        std::fputs(app.help().c_str(), stdout);
      else
        fmt::print(stderr, "lab train: {}\n", in_our_words(app, error, app.remaining()));
    }
    return help ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace lockstep::train

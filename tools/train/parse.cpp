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
  auto* model = app.add_option_group("Model");
  model->add_option("--model", o.model, "tiny, small, gpt2-124m, gpt2-355m, …, gpt3-175b, gpt-1t")
      ->capture_default_str();
  model->add_option("--layers", o.layers, "Instead of the model's")->check(whole_number(1));
  model->add_option("--d-model", o.d_model, "Instead of the model's")->check(whole_number(1));
  model->add_option("--heads", o.heads, "Instead of the model's")->check(whole_number(1));
  model->add_flag("--untied", o.untied, "A head of its own, not the token embedding");
  model->add_option("--attention", o.attention, "flash, or materialised: with all its probabilities in memory")
      ->capture_default_str();
  auto* data = app.add_option_group("Text");
  data->add_option("--data", o.data, "A text, or a token file as llm.c writes them (default: data/austen.txt)");
  data->add_option("--tokens", o.tokens, "byte or char")->capture_default_str();
  auto* training = app.add_option_group("Training");
  training->add_option("--steps", o.steps, "Optimizer steps")->capture_default_str()->check(whole_number(1));
  training->add_option("--batch", o.batch, "Sequences of the global batch, the same for any number of ranks")
      ->capture_default_str()
      ->check(whole_number(1));
  training->add_option("--sequence", o.sequence, "Tokens of a sequence (default: the model's context)")
      ->check(whole_number(1));
  training
      ->add_option("--microbatches,--accumulate", o.accumulate,
                   "Of a replica and step (default: 1; of a pipeline four a stage)")
      ->check(whole_number(1));
  training->add_option("--lr", o.learning_rate, "Learning rate after warm-up")->capture_default_str();
  training
      ->add_option("--optimizer", o.optimizer,
                   "adamw, or sgd: gradient descent with momentum 0.9 (the mean of gradients); its --lr is about 1")
      ->capture_default_str();
  training
      ->add_option("--lr-scaling", o.lr_scaling,
                   "With --base-batch: none, linear or sqrt: the rate grows with the batch, and warm-up begins at --lr")
      ->capture_default_str();
  training->add_option("--base-batch", o.base_batch, "Sequences of the batch for which --lr is right")
      ->check(whole_number(1));
  training->add_option("--warmup", o.warmup, "Steps of linear warm-up")->capture_default_str()->check(whole_number(0));
  training->add_option("--weight-decay", o.weight_decay, "Of matrices and embeddings (default: 0.1; of sgd none)");
  training->add_option("--clip", o.clip, "Largest gradient norm; 0: any")->capture_default_str();
  training->add_option("--seed", o.seed, "Of initial values and of the order of the text")
      ->capture_default_str()
      ->check(whole_number(0));
  auto* memory = app.add_option_group("Precision and memory");
  memory
      ->add_option("--precision", o.precision,
                   "fp32, bf16 or fp16, of values, activations and gradients; AdamW keeps fp32")
      ->capture_default_str();
  memory->add_option("--reduce", o.reduce, "Type in which gradients are summed over ranks (default: --precision)");
  memory
      ->add_option("--loss-scale", o.loss_scale, "Of fp16: dynamic (from 65536), a power of two to begin with, or off")
      ->capture_default_str();
  memory->add_option("--loss-scale-interval", o.loss_scale_interval, "Good steps after which the scale doubles")
      ->capture_default_str()
      ->check(whole_number(1));
  memory
      ->add_option("--recompute", o.recompute,
                   "In the backward: none; selective, probabilities of materialised attention; full, whole blocks")
      ->capture_default_str();
  auto* mesh = app.add_option_group("Parallelism");
  mesh->add_option("--dp", o.dp, "Replicas (default: --ranks / --tp / --pp)")->check(whole_number(1));
  mesh->add_option("--tp", o.tp, "Ranks that share every layer")->capture_default_str()->check(whole_number(1));
  mesh->add_option("--pp", o.pp, "Stages of a pipeline")->capture_default_str()->check(whole_number(1));
  mesh->add_option("--schedule", o.schedule, "Of the pipeline: naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2")
      ->capture_default_str();
  mesh->add_option("--chunks", o.chunks, "Of a stage, for interleaved (default: 2)")->check(whole_number(1));
  mesh->add_flag("--sequence-parallel", o.sequence_parallel, "With --tp: norms and residuals on cut rows too");
  auto* parallel = app.add_option_group("Data parallelism");
  parallel->add_option("--bucket-bytes", o.bucket_bytes,
                       "Of a gradient bucket (default: 25MiB, or an eighth of the gradients)");
  parallel->add_option("--zero", o.zero, "Stage: 0 plain, 1 shards optimizer state, 2 gradients too, 3 values too")
      ->capture_default_str();
  parallel->add_option("--wrap", o.wrap, "Units of stages 2 and 3: model, block, layer, or a least number of elements")
      ->capture_default_str();
  parallel->add_option("--prefetch", o.prefetch, "Stage 3: units gathered ahead")
      ->capture_default_str()
      ->check(whole_number(0));
  parallel->add_flag("--no-overlap", o.no_overlap, "All-reduce on the main queue");
  parallel->add_option(
      "--compress", o.compress,
      "Gradients: topk:0.01 (that share of a bucket's elements), int8, or int8-two-step (default: none)");
  parallel->add_flag("--no-feedback", o.no_feedback, "With --compress topk: forget what was not sent");
  auto* machine = app.add_option_group("Machine");
  machine->add_option("--machine", o.machine, "What the simulator prices with: a name in bench/machines")
      ->capture_default_str();
  machine->add_option("--emulate", o.emulate, "MPI: last as long as on this machine");
  machine->add_flag("--phantom", o.phantom,
                    "Simulator: prices only, no memory, no arithmetic. Of a mesh with --tp or --pp one step, for which "
                    "one rank a stage is simulated: the others do the same");
  machine->add_flag("--every-rank", o.every_rank, "With --phantom: simulate all ranks of a mesh");
  machine->add_flag("--tf32", o.tf32, "GPUs: products of fp32 round their operands to 10 bits, for tensor cores");
  machine->add_flag("--check-races", o.check_races, "Simulator: look for races, slower");
  machine->add_option("--threads", o.threads, "Of arithmetic, each rank (default: the usable cores)")
      ->check(whole_number(1));
  auto* output = app.add_option_group("Output");
  output->add_option("--log-every", o.log_every, "Steps between log lines (default: a twentieth)")
      ->check(whole_number(1));
  output->add_option("--validate-every", o.validate_every, "Steps between validations (default: a quarter)")
      ->check(whole_number(1));
  output->add_option("--sample", o.sample, "Tokens of text to write at the end; 0: none")
      ->capture_default_str()
      ->check(whole_number(0));
  output->add_option("--prompt", o.prompt, "What the sample begins with (default: a line of the text)");
  output->add_option("--csv", o.csv, "One row a step");
  output->add_option("--json", o.json, "The result with its context");
  output->add_option("--trace", o.trace, "A timeline: Perfetto JSON, or an SVG chart where the name ends in .svg");
  auto* checkpoints = app.add_option_group("Checkpoints");
  checkpoints->add_option("--checkpoint", o.checkpoint,
                          "A directory for checkpoints, written while training goes on; the last two are kept");
  checkpoints->add_option("--checkpoint-every", o.checkpoint_every, "Steps between them (default: one, at the end)")
      ->check(whole_number(1));
  checkpoints->add_option("--resume", o.resume,
                          "Go on, up to --steps in all, from the last whole checkpoint of a directory, on any ranks");
  checkpoints
      ->add_option("--on-save-error", o.on_save_error, "When a checkpoint cannot be written: go-on, or stop the run")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    if (backend != backend_name() && backend != "serial")
      throw CLI::ValidationError(
          fmt::format("this program runs on {}: ./lab train --backend {} starts the other", backend_name(), backend));
    if (backend == "serial") {
      if (o.ranks > 1 || o.dp > 1 || o.tp > 1 || o.pp > 1)
        throw CLI::ValidationError(
            "serial means one rank: leave out --ranks, --dp, --tp and --pp, or choose another backend");
      o.ranks = 1;
    }
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

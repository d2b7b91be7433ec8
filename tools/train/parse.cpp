// The command line of ./lab train.
#include <fmt/core.h>

#include <array>
#include <cstdio>

#include "common/error.hpp"
#include "common/runtime/run.hpp"
#include "common/support/text/command_line.hpp"
#include "tools/train/options.hpp"

namespace lockstep::train {

namespace {

/// Options that do nothing in some runs: who typed one then hears of it (options.hpp).
constexpr std::array<const char*, 14> kMayDoNothing = {
    "--machine",    "--schedule",       "--zero",         "--wrap",          "--prefetch",
    "--every-rank", "--check-races",    "--bucket-bytes", "--no-overlap",    "--loss-scale-interval",
    "--outer-lr",   "--outer-momentum", "--log-every",    "--overlap-gather"};

void add_model_options(CommandLine& line, TrainOptions& o) {
  line.group("Model");
  line.add("--model", o.words.model, "tiny, small, gpt2-124m, …, gpt-1t, tiny-llama, llama3-8b, …, or a config.json");
  line.add("--layers", o.layers, "Blocks (default: the model's)", {1});
  line.add("--d-model", o.d_model, "Channels (default: the model's)", {1});
  line.add("--heads", o.heads, "Attention heads (default: the model's)", {1});
  line.add("--untied", o.untied, "Separate head weights, not the token embedding");
  line.add("--attention", o.words.attention, "flash, or materialised: all attention probabilities in memory");
}

void add_text_options(CommandLine& line, TrainOptions& o) {
  line.group("Text");
  line.add("--data", o.data, "Text, or a token file in llm.c's format (default: data/austen.txt)");
  line.add("--tokens", o.tokens, "byte or char");
}

void add_training_options(CommandLine& line, TrainOptions& o) {
  line.group("Training");
  line.add("--steps", o.steps, "Optimizer steps", {1});
  line.add("--batch", o.batch, "Sequences of the global batch, the same for any number of ranks", {1});
  line.add("--sequence", o.sequence, "Tokens of a sequence (default: the model's context)", {1});
  line.add("--microbatches,--accumulate", o.microbatches,
           "Microbatches per replica and step (default: 1; with a pipeline four per stage)", {1});
  line.add("--lr", o.learning_rate, "Learning rate after warm-up", {1e-12, 10});
  line.add("--optimizer", o.optimizer, "adamw, or sgd: momentum 0.9 over averaged gradients; use --lr near 1");
  line.add("--lr-scaling", o.lr_scaling,
           "With --base-batch: none, linear or sqrt: the rate grows with the batch, and warm-up begins at --lr");
  line.add("--base-batch", o.base_batch, "Sequences of the batch for which --lr is right", {1});
  line.add("--warmup", o.warmup, "Steps of linear warm-up", {0});
  line.add("--weight-decay", o.weight_decay, "Weight decay of matrices and embeddings (default: 0.1; sgd: none)",
           Real{0, 10});
  line.add("--clip", o.clip, "Largest gradient norm; 0: no limit", {0, 1e9});
  line.add("--seed", o.seed, "Seed of the initial parameters and of the order of the text", {0});
}

void add_memory_options(CommandLine& line, TrainOptions& o) {
  line.group("Precision and memory");
  line.add("--precision", o.words.precision,
           "Type of parameters, activations and gradients: fp32, bf16 or fp16; AdamW keeps fp32");
  line.add("--reduce", o.words.reduce, "Type in which gradients are summed over ranks (default: --precision)");
  line.add("--loss-scale", o.words.loss_scale, "For fp16: dynamic (from 65536), a power of two to begin with, or off");
  line.add("--loss-scale-interval", o.loss_scale_interval, "Good steps after which the scale doubles", {1});
  line.add("--recompute", o.words.recompute,
           "In the backward pass: none; selective (probabilities of materialised attention); full (whole blocks)");
}

void add_parallelism_options(CommandLine& line, TrainOptions& o) {
  line.group("Parallelism");
  line.add("--dp", o.mesh.dp, "Replicas (default: --ranks / --cp / --tp / --pp)", {1});
  line.add("--cp", o.cp, "Ranks that share each sequence, in zig-zag: ring attention", {1});
  line.add("--tp", o.mesh.tp, "Ranks that share every layer", {1});
  line.add("--pp", o.mesh.pp, "Stages of a pipeline", {1});
  line.add("--schedule", o.schedule, "Pipeline schedule: naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v");
  line.add("--chunks", o.chunks, "Chunks per stage, for interleaved (default: 2)", {1});
  line.add("--sequence-parallel", o.sequence_parallel, "With --tp: norms and residuals on sharded rows");
  line.add("--overlap-scatter", o.overlap_scatter,
           "With --sequence-parallel: the backward pass scatters the inputs' gradients while it computes the weights'");
}

void add_data_parallelism_options(CommandLine& line, TrainOptions& o) {
  line.group("Data parallelism");
  line.add("--bucket-bytes", o.words.bucket_bytes,
           "Size of a gradient bucket (default: 25MiB, or an eighth of the gradients)");
  line.add("--zero", o.zero, "Stage: 0 plain, 1 shards optimizer state, 2 gradients too, 3 parameters too");
  line.add("--shard-group", o.shard_group,
           "Stage 3: how many neighbouring ranks hold one whole copy of the state, such as a node's (default: all)",
           {1});
  line.add("--wrap", o.words.wrap, "Units of stages 2 and 3: model, block, layer, or a least number of elements");
  line.add("--prefetch", o.prefetch, "Stage 3: units gathered ahead", {0});
  line.add("--overlap-gather", o.overlap_gather,
           "Stages 1 and 2: gather new parameters during the next forward pass, not before it");
  line.add("--no-overlap", o.no_overlap, "All-reduce on the main queue");
  line.add("--compress", o.compress,
           "Gradients: topk:0.01 (that share of a bucket's elements), int8, or int8-two-step (default: none)");
  line.add("--no-feedback", o.no_feedback, "With --compress topk: forget what was not sent");
  line.add("--outer-steps", o.outer_steps,
           "DiLoCo: how many steps each rank takes on its own between two outer steps (default: no outer steps)", {1});
  line.add("--outer-lr", o.outer_learning_rate,
           "Learning rate of an outer step; 1 with momentum 0 continues from the average", {1e-12, 10});
  line.add("--outer-momentum", o.outer_momentum, "Nesterov momentum of the outer steps; 0: none", {0, 0.9999});
}

void add_machine_options(CommandLine& line, TrainOptions& o) {
  line.group("Machine");
  line.add("--machine", o.machine, "Machine that the simulator models: a name in bench/machines");
  line.add("--emulate", o.emulate, "MPI: delay operations to the modelled times of this machine");
  line.add("--phantom", o.phantom,
           "Simulator: modelled times only, no memory, no arithmetic. For a mesh with --tp or --pp one step, for which "
           "one rank per stage is simulated, since the others do the same");
  line.add("--every-rank", o.every_rank, "With --phantom: simulate all ranks of a mesh");
  line.add("--tf32", o.tf32, "GPUs: matrix products of fp32 round their operands to 10 bits, for tensor cores");
  line.add("--check-races", o.check_races, "Simulator: look for races, slower");
  line.add("--threads", o.threads, "Threads for each rank's arithmetic (default: the usable cores)", {1, 4096});
}

void add_output_options(CommandLine& line, TrainOptions& o) {
  line.group("Output");
  line.add("--log-every", o.log_every, "Steps between log lines (default: a twentieth)", {1});
  line.add("--validate-every", o.validate_every, "Steps between validations (default: a quarter)", {1});
  line.add("--sample", o.sample, "Tokens of text to generate at the end; 0: none", {0});
  line.add("--prompt", o.prompt, "Prompt of the sample (default: a line of the text)");
  line.add("--csv", o.csv, "CSV file, one row per step");
  line.add("--json", o.json, "JSON file with the results and their context");
  line.add("--explain-as", o.explain_as,
           "Run nothing: print the equivalent for torchrun (PyTorch), deepspeed or megatron, and what differs");
  line.add("--trace", o.trace, "A timeline: Perfetto JSON, or an SVG chart where the name ends in .svg");
}

void add_checkpoint_options(CommandLine& line, TrainOptions& o) {
  line.group("Checkpoints");
  line.add("--checkpoint", o.checkpoint,
           "A directory for checkpoints, written while training continues; the last two are kept");
  line.add("--checkpoint-every", o.checkpoint_every,
           "Steps between two checkpoints (default: one checkpoint, at the end)", {1});
  line.add("--resume", o.resume,
           "Resume from the last complete checkpoint of a directory, up to --steps in total, on any number of ranks "
           "(with --outer-steps, the same)");
  line.add("--init", o.init,
           "Begin with the weights in this safetensors file, named as in GPT-2 (./lab export writes one)");
  line.add("--on-save-error", o.on_save_error,
           "When a checkpoint cannot be written: go-on (continue), or stop the run");
}

/// "serial" is this program too, with one rank.
void check_backend(TrainOptions& o, bool any) {
  if (o.backend.empty() || o.backend == backend_name()) return;
  if (o.backend != "serial" && any) return;
  if (o.backend != "serial")
    throw Error(Verdict::usage, fmt::format("this program runs on {}: ./lab train --backend {} starts the right one",
                                            backend_name(), o.backend));
  if (o.ranks > 1 || o.mesh.dp > 1 || o.cp > 1 || o.mesh.tp > 1 || o.mesh.pp > 1)
    throw Error(Verdict::usage,
                "serial means one rank: leave out --ranks, --dp, --cp, --tp and --pp, or choose another backend");
  o.ranks = 1;
}

std::optional<int> read_line(int argc, char** argv, TrainOptions& o, bool any_backend) {
  CommandLine line("lab train", "Trains a GPT on text: serially on one rank, or on a mesh of ranks.");
  line.add_config("--config", "A file of these options, one per line: steps = 100 (the command line takes precedence)");
  line.add("--backend", o.backend, "sim, mpi, cuda, nccl, or serial: one rank and all cores (default)");
  line.add("--ranks", o.ranks,
           "Ranks: --dp × --cp × --tp × --pp; 1 is the serial program (default: these; under mpirun, all)", {1});
  add_model_options(line, o);
  add_text_options(line, o);
  add_training_options(line, o);
  add_memory_options(line, o);
  add_parallelism_options(line, o);
  add_data_parallelism_options(line, o);
  add_machine_options(line, o);
  add_output_options(line, o);
  add_checkpoint_options(line, o);
  try {
    if (!line.parse(argc, argv)) {
      if (is_judge()) std::fputs(line.help().c_str(), stdout);
      return 0;
    }
    check_backend(o, any_backend);
  } catch (const Error& error) {
    if (is_judge()) fmt::print(stderr, "lab train: {}\n", error.what());
    return 2;
  }
  for (const char* name : kMayDoNothing)
    if (line.given(name)) o.typed.emplace_back(name);
  return std::nullopt;
}

}  // namespace

std::optional<int> parse(int argc, char** argv, TrainOptions& o) { return read_line(argc, argv, o, false); }
std::optional<int> parse_for_any_backend(int argc, char** argv, TrainOptions& o) {
  return read_line(argc, argv, o, true);
}

}  // namespace lockstep::train

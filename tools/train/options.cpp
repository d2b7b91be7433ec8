// The options of ./lab train: one row for each, from which come the command line, --help, --config, and the fields of
// results that record the options.
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <utility>

#include "common/error.hpp"
#include "common/runtime/run.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/text/command_line.hpp"
#include "tools/train/request.hpp"

namespace lockstep::train {

namespace {

using R = TrainRequest;

constexpr const char *kParallelism = "Parallelism", *kDataParallelism = "Data parallelism";

struct Option {
  /// `names` and `limits` as of CommandLine::add. `field`: its name in the rows of results, or "context.NAME".
  template <class T, class... Limits>
  Option(const char* names, T R::*member, const char* help, const char* field, Limits... limits)
      : name(std::string_view(names).substr(0, std::string_view(names).find(','))),
        field(field),
        add([=](CommandLine& line, R& r) { line.add(names, r.*member, help, limits...); }),
        reset([=](R& r) { r.*member = R().*member; }),
        set([=](Row& row, const std::string& name, const R& r) {
          if constexpr (requires { row.set(name, r.*member); })
            row.set(name, r.*member);
          else  // optional
            row.set(name, (r.*member).value_or(NAN));
        }) {}
  template <class T, class... Limits>
  Option(const char* names, T R::*member, const char* help, Limits... limits)
      : Option(names, member, help, "", limits...) {}

  std::string name;                           // "--pp"
  std::string_view field, group;              // group: title in --help
  std::function<void(CommandLine&, R&)> add;  // so that parsing writes to the request
  std::function<void(R&)> reset;              // to the default
  std::function<void(Row&, const std::string&, const R&)> set;
};

std::vector<Option> general_options() {
  return {{"--backend", &R::backend, "sim, mpi, cuda, nccl, or serial: one rank and all cores (default)"},
          {"--ranks", &R::ranks,
           "Ranks: --dp × --cp × --tp × --pp; 1 is the serial program (default: these; under mpirun, all)", Whole{1}}};
}

std::vector<Option> model_options() {
  return {
      {"--model", &R::model, "tiny, small, gpt2-124m, …, gpt-1t, tiny-llama, llama3-8b, …, tiny-moe, or a config.json"},
      {"--capacity-factor", &R::capacity_factor,
       "tiny-moe: slots of a rank that an expert keeps, over what even routing gives it (default: 0, all of them)",
       Real{0, 1e6}},
      {"--balance-loss", &R::balance_loss, "tiny-moe: the balance loss's weight, such as 0.01 (default: 0)",
       Real{0, 1e6}},
      {"--layers", &R::layers, "Blocks (default: the model's)", Whole{1}},
      {"--d-model", &R::d_model, "Channels (default: the model's)", Whole{1}},
      {"--heads", &R::heads, "Attention heads (default: the model's)", Whole{1}},
      {"--untied", &R::untied, "Separate head weights, not the token embedding"},
      {"--attention", &R::attention, "flash, or materialised: all attention probabilities in memory",
       "context.attention"}};
}

std::vector<Option> text_options() {
  return {
      {"--data", &R::data, "Text, or a token file in llm.c's format (default: data/austen.txt)"},
      {"--tokens", &R::tokens, "byte or char", "context.tokens"},
      {"--load-rate", &R::load_rate,
       "Tokens per second of a rank's loader, which then takes that long (default: 0, as read)", "load_rate",
       Real{0, 1e15}},
      {"--load-ahead", &R::load_ahead, "Batches that a rank loads ahead, on a queue of its own, while steps compute",
       "load_ahead", Whole{0, 1000}}};
}

std::vector<Option> training_options() {
  return {
      {"--steps", &R::steps, "Optimizer steps", "steps", Whole{1}},
      {"--batch", &R::batch, "Sequences of the global batch, the same for any number of ranks", "batch_sequences",
       Whole{1}},
      {"--sequence", &R::sequence, "Tokens of a sequence (default: the model's context)", Whole{1}},
      {"--microbatches,--accumulate", &R::microbatches,
       "Microbatches per replica and step (default: 1; with a pipeline four per stage)", Whole{1}},
      {"--lr", &R::learning_rate, "Learning rate after warm-up", "context.learning_rate", Real{1e-12, 10}},
      {"--optimizer", &R::optimizer, "adamw, or sgd: momentum 0.9 over averaged gradients; use --lr near 1",
       "optimizer"},
      {"--lr-scaling", &R::lr_scaling,
       "With --base-batch: none, linear or sqrt: the rate grows with the batch, and warm-up begins at --lr",
       "lr_scaling"},
      {"--base-batch", &R::base_batch, "Sequences of the batch for which --lr is right", "base_batch", Whole{1}},
      {"--warmup", &R::warmup, "Steps of linear warm-up", Whole{0}},
      {"--weight-decay", &R::weight_decay, "Weight decay of matrices and embeddings (default: 0.1; sgd: none)",
       Real{0, 10}},
      {"--clip", &R::clip, "Largest gradient norm; 0: no limit", Real{0, 1e9}},
      {"--dropout", &R::dropout,
       "Probability with which elements of the outputs of embedding, attention and MLP are dropped (23.8); "
       "attention is fused, and keeps its probabilities",
       "dropout", Real{0, 0.999}},
      {"--seed", &R::seed, "Seed of the initial parameters and of the order of the text", "context.seed", Whole{0}}};
}

std::vector<Option> memory_options() {
  return {{"--precision", &R::precision,
           "Type of parameters, activations and gradients: fp32, bf16 or fp16; AdamW keeps fp32", "context.precision"},
          {"--fp32-gradients", &R::fp32_gradients,
           "With --precision bf16 or fp16: gradients are held and summed in fp32, as by Megatron-LM in bf16",
           "fp32_gradients"},
          {"--reduce", &R::reduce, "Type in which gradients are summed over ranks (default: the gradients' own)"},
          {"--loss-scale", &R::loss_scale, "For fp16: dynamic (from 65536), a power of two to begin with, or off"},
          {"--loss-scale-interval", &R::loss_scale_interval,
           "Number of steps without overflow after which the scale doubles", Whole{1}},
          {"--recompute", &R::recompute,
           "In the backward pass: none; selective (probabilities of materialised attention); full (whole blocks)",
           "context.recompute"}};
}

std::vector<Option> parallelism_options() {
  return {{"--dp", &R::dp, "Replicas (default: --ranks / --cp / --tp / --pp)", Whole{1}},
          {"--cp", &R::cp, "Ranks that share each sequence, in zig-zag: ring attention", "context_parallel", Whole{1}},
          {"--tp", &R::tp, "Ranks that share every layer", "tensor_parallel", Whole{1}},
          {"--pp", &R::pp, "Stages of a pipeline", "stages", Whole{1}},
          {"--schedule", &R::schedule,
           "Pipeline schedule: naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, dualpipev", "schedule"},
          {"--chunks", &R::chunks, "Chunks per stage, for interleaved (default: 2)", Whole{1}},
          {"--sequence-parallel", &R::sequence_parallel, "With --tp: norms and residuals on sharded rows",
           "sequence_parallel"},
          {"--overlap-scatter", &R::overlap_scatter,
           "With --sequence-parallel: the backward pass scatters the inputs' gradients while it computes the weights'",
           "overlap_scatter"}};
}

std::vector<Option> data_parallelism_options() {
  return {
      {"--bucket-bytes", &R::bucket_bytes, "Size of a gradient bucket (default: 25MiB, or an eighth of the gradients)"},
      {"--zero", &R::zero, "Stage: 0 plain, 1 shards optimizer state, 2 gradients too, 3 parameters too", "zero"},
      {"--shard-group", &R::shard_group,
       "Stage 3: how many neighbouring ranks hold one whole copy of the state, such as a node's (default: all)",
       "shard_group", Whole{1}},
      {"--wrap", &R::wrap, "Units of stages 2 and 3: model, block, layer, or a minimum number of elements", "wrap"},
      {"--prefetch", &R::prefetch, "Stage 3: number of units gathered ahead of their use", "prefetch", Whole{0}},
      {"--overlap-gather", &R::overlap_gather,
       "Stages 1 and 2: gather new parameters during the next forward pass, not before it", "overlap_gather"},
      {"--no-overlap", &R::no_overlap, "All-reduce on the main queue"},
      {"--compress", &R::compress,
       "Gradients: topk:0.01 (that share of a bucket's elements), int8, int8-two-step, or topk+int8:0.01 (that share "
       "exactly, the others in int8; default: none)",
       "compress"},
      {"--no-feedback", &R::no_feedback, "With --compress topk or topk+int8: forget what was not sent"},
      {"--outer-steps", &R::outer_steps,
       "DiLoCo: how many steps each rank takes on its own between two outer steps (default: no outer steps)",
       "outer_steps", Whole{1}},
      {"--outer-lr", &R::outer_learning_rate,
       "Learning rate of an outer step; 1 with momentum 0 continues from the average", Real{1e-12, 10}},
      {"--outer-momentum", &R::outer_momentum, "Nesterov momentum of the outer steps; 0: none", Real{0, 0.9999}}};
}

std::vector<Option> machine_options() {
  return {{"--machine", &R::machine, "Machine that the simulator models: a name in bench/machines"},
          {"--emulate", &R::emulate, "MPI: delay operations to the modelled times of this machine"},
          {"--phantom", &R::phantom,
           "Simulator: modelled times only, no memory, no arithmetic. For a mesh with --tp or --pp one step, for which "
           "one rank per stage is simulated, since the others do the same"},
          {"--every-rank", &R::every_rank, "With --phantom: simulate all ranks of a mesh"},
          {"--tf32", &R::tf32, "GPUs: round the operands of fp32 matrix products to 10 bits, for tensor cores"},
          {"--check-races", &R::check_races, "Simulator: look for races, slower"},
          {"--threads", &R::threads, "Threads for each rank's arithmetic (default: the usable cores)", Whole{1, 4096}}};
}

std::vector<Option> output_options() {
  return {
      {"--log-every", &R::log_every, "Steps between log lines (default: a twentieth)", Whole{1}},
      {"--validate-every", &R::validate_every, "Steps between validations (default: a quarter)", Whole{1}},
      {"--sample", &R::sample, "Tokens of text to generate at the end; 0: none", Whole{0}},
      {"--prompt", &R::prompt, "Prompt of the sample (default: a line of the text)"},
      {"--csv", &R::csv, "CSV file, one row per step"},
      {"--json", &R::json, "JSON file with the results and their context"},
      {"--explain-as", &R::explain_as,
       "Run nothing: print complete files for torchrun (PyTorch), accelerate, deepspeed or megatron, and what differs"},
      {"--trace", &R::trace, "A timeline, for ./lab view, ./lab why and ui.perfetto.dev"}};
}

std::vector<Option> checkpoint_options() {
  return {
      {"--checkpoint", &R::checkpoint,
       "A directory for checkpoints, written while training continues; the last two are kept"},
      {"--checkpoint-every", &R::checkpoint_every,
       "Steps between two checkpoints (default: one checkpoint, at the end)", Whole{1}},
      {"--resume", &R::resume,
       "Resume from the last complete checkpoint of a directory, up to --steps in total, on any number of ranks (with "
       "--outer-steps, the same)"},
      {"--init", &R::init,
       "Begin with the weights in this safetensors file, named as in GPT-2 (./lab export writes one)"},
      {"--on-save-error", &R::on_save_error, "When a checkpoint cannot be written: continue, or stop the run"}};
}

/// In the order of --help.
std::vector<Option> all_options() {
  const std::pair<const char*, std::vector<Option>> groups[] = {
      {"", general_options()},
      {"Model", model_options()},
      {"Text", text_options()},
      {"Training", training_options()},
      {"Precision and memory", memory_options()},
      {kParallelism, parallelism_options()},
      {kDataParallelism, data_parallelism_options()},
      {"Machine", machine_options()},
      {"Output", output_options()},
      {"Checkpoints", checkpoint_options()},
  };
  std::vector<Option> all;
  for (const auto& [title, options] : groups)
    for (const Option& option : options) all.emplace_back(option).group = title;
  return all;
}

/// "serial" is this program too, with one rank.
void check_backend(R& r, bool any) {
  if (r.backend.empty() || r.backend == backend_name()) return;
  if (r.backend != "serial" && any) return;
  if (r.backend != "serial")
    throw Error(Verdict::usage, fmt::format("this program runs on {}: ./lab train --backend {} starts the right one",
                                            backend_name(), r.backend));
  if (r.ranks > 1 || r.dp > 1 || r.cp > 1 || r.tp > 1 || r.pp > 1)
    throw Error(Verdict::usage,
                "serial means one rank: leave out --ranks, --dp, --cp, --tp and --pp, or choose another backend");
  r.ranks = 1;
}

}  // namespace

std::optional<int> parse(int argc, char** argv, TrainRequest& r, bool any_backend, const std::string& command) {
  const std::vector<Option> options = all_options();
  CommandLine line(command, "Trains a GPT on text: serially on one rank, or on a mesh of ranks.");
  line.add_config("--config", "A file of these options, one per line: steps = 100 (the command line takes precedence)");
  std::string_view group;
  for (const Option& option : options) {
    if (option.group != group) line.group(std::string(group = option.group));
    option.add(line, r);
  }
  try {
    if (!line.parse(argc, argv, is_judge())) return 0;
    check_backend(r, any_backend);
  } catch (const Error& error) {
    if (is_judge()) fmt::print(stderr, "{}: {}\n", command, error.what());
    return 2;
  }
  for (const Option& option : options)
    if (line.given(option.name)) r.typed.push_back(option.name);
  const std::string backend(backend_name());  // not typed where mpirun started this program
  r.command_line =
      repeatable("./" + command + (r.backend.empty() && backend != "sim" ? " --backend " + backend : ""), argc, argv);
  return std::nullopt;
}

TrainRequest for_one_rank(TrainRequest r) {
  for (const Option& option : all_options())
    if (option.group == kParallelism || option.group == kDataParallelism) option.reset(r);
  r.reduce.clear();
  r.typed.clear();  // what was asked for is for the ranks
  r.ranks = 1;
  return r;
}

void set_asked(Row& row, const TrainRequest& r, bool in_context) {
  const std::string_view context = "context.";
  if (in_context && !r.command_line.empty()) row.set("command_line", r.command_line);
  for (const Option& option : all_options())
    if (!option.field.empty() && option.field.starts_with(context) == in_context)
      option.set(row, std::string(option.field.substr(in_context ? context.size() : 0)), r);
}

}  // namespace lockstep::train

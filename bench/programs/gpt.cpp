// One training step of a GPT on one rank: tokens per second, and the fraction of the computer's arithmetic rate that
// this is. On MPI also on several ranks, with 21.7's overlapped buckets. Also PyTorch's step, if it is installed.
//
//   ./lab bench gpt --model tiny --dtype fp32
//   ./lab bench gpt --backend mpi --ranks 1,2 --model small --batch 32 --pytorch eager,compiled
//   ./lab bench gpt --backend cuda --model gpt2-124m --vocabulary 50304 --batch 16 --machine dgx-h200
//   ./lab bench gpt --machine dgx-h200 --phantom --model gpt2-124m,gpt2-355m --batch 16 --sequence 1024
//
// Model FLOP are those that the model requires of any program: 6 per matrix parameter and token (N without positions,
// norms and biases; a tied head counts once), plus 6 L C T per token for attention, half of PaLM's 12 L C T (arXiv
// 2204.02311, appendix B) because of the causal mask. The same run also measures one large matrix product in the same
// dtype: no step can be faster than its model FLOP at that rate.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "bench/programs/ddp_step.hpp"
#include "bench/programs/operations.hpp"
#include "bench/programs/pytorch_step.hpp"
#include "bench/support/bench.hpp"
#include "bench/support/price.hpp"
#include "common/arithmetic.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/storage.hpp"

namespace lockstep::bench {
namespace {

struct GptProgramOptions {
  std::vector<std::string> models{"tiny"};
  std::string dtype;                 // "": fp32 on MPI, else bf16
  int batch = 8;                     // sequences
  int sequence = 0;                  // tokens per sequence; 0: the model's context
  int vocabulary = 0;                // 0: the model's
  int operations = 0;                // number of a step's operations to time, the longest first
  int matmul = 0;                    // rows and columns of the product; 0: 8192 on a GPU, real or simulated, else 1024
  std::vector<std::string> pytorch;  // modes of its step: eager, compiled
};

double tokens(const StepShape& shape) { return static_cast<double>(shape.tokens()); }
double flop(const StepShape& shape) {
  return static_cast<double>(shape.sequences) * shape.model.step_flop(shape.length);
}

StepShape shape_of(const GptProgramOptions& o, const std::string& preset) {
  GptConfig model = gpt_preset(preset);
  if (o.vocabulary) model.vocabulary = static_cast<std::size_t>(o.vocabulary);
  model.storage = parse_storage(o.dtype);
  return step_shape(model, o.batch, o.sequence);
}

std::size_t matmul_size(const GptProgramOptions& o, bool phantom) {
  return static_cast<std::size_t>(o.matmul ? o.matmul : phantom || on_gpu() ? 8192 : 1024);
}

Prepared prepare_step(Rank me, const StepShape& shape, Purpose purpose) {
  if (me.size() == 1) return prepare_serial_step(me, shape);
  DdpShape of_ranks{shape};
  return prepare_step(me, of_ranks, Variant::overlapped, purpose);
}

/// c = a · b with n × n matrices of small random values; with zeros a chip would save power.
Prepared prepare_matmul(Rank me, std::size_t n, DType dtype) {
  std::array<Slice, 3> slices;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    slices[i] = me.allocate(n * n, dtype, Category::activation);
    random_normal(me, slices[i], {.seed = 1, .tensor = i}, 0, 0.1f);
  }
  return {.act = [=] { matmul(me, matrix(slices[2], n, n), matrix(slices[0], n, n), matrix(slices[1], n, n)); },
          .right = {}};
}

constexpr std::size_t kStep = 0, kMatmul = 1;  // indices of the contenders; PyTorch's steps follow

std::vector<Contender> contenders_of(Bench& bench, const GptProgramOptions& o, const RunOptions& options,
                                     const std::string& model, const PyTorch& pytorch) {
  const StepShape shape = shape_of(o, model);
  const std::size_t n = matmul_size(o, options.phantom);
  const DType dtype = shape.model.storage;
  std::vector<Contender> contenders = {
      {.name = "step", .prepare = [=](Rank me, Purpose purpose) { return prepare_step(me, shape, purpose); }},
      {.name = "matmul", .prepare = [=](Rank me, Purpose) { return prepare_matmul(me, n, dtype); }}};
  if (bench.has_machine() && options.ranks == 1)
    for (Contender& contender : contenders)
      contender.predicted_seconds =
          priced_seconds(options.machine, [&](Rank me) { return contender.prepare(me, Purpose::time).act; });
  for (const std::string& how : o.pytorch) contenders.push_back(pytorch_contender(pytorch, model, shape, how));
  return contenders;
}

void add_model(Bench& bench, const GptProgramOptions& o, const std::string& name, int ranks, const PyTorch& pytorch) {
  const StepShape shape = shape_of(o, name);
  const RunOptions options = bench.run_options(ranks);
  const std::size_t n = matmul_size(o, options.phantom);
  const double peak = bench.has_machine()
                          ? options.machine.peak_flop_per_second[static_cast<std::size_t>(shape.model.storage)]
                          : std::nan("");
  if (o.operations > 0)
    report_operations(bench, name,
                      operations_of(options, [=](Rank me) { return prepare_step(me, shape, Purpose::time).act; }),
                      static_cast<std::size_t>(o.operations));
  const std::string on = ranks > 1 ? fmt::format("/{} ranks", ranks) : "";
  bench.add(fmt::format("{}/{} × {}{}", name, shape.sequences, shape.length, on), options,
            contenders_of(bench, o, options, name, pytorch),
            [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              const double matmul_rate = 2.0 * std::pow(static_cast<double>(n), 3) / group[kMatmul].seconds.value;
              const double seconds = group[i].seconds.value;
              const double rate = i == kMatmul ? matmul_rate : flop(shape) / seconds / ranks;
              row.set("dtype", o.dtype);
              if (i == kMatmul) {
                row.set("matmul_size", n);
              } else {
                row.set("model", name).set("parameters", shape.model.parameters());
                row.set("vocabulary", shape.model.vocabulary);
                row.set("batch_sequences", shape.sequences).set("sequence_tokens", shape.length);
                row.set("tokens_per_second", tokens(shape) / seconds);
                row.set("model_flop_per_token", flop(shape) / tokens(shape));
              }
              if (i == kStep)
                for (std::size_t other = kMatmul + 1; other < group.size(); ++other)
                  row.set("times_" + group[other].contender, group[other].seconds.value / seconds);
              if (group[i].apart) row.set("waiting_cpu_share", group[i].waiting_cpu_share);
              row.set("flop_per_second", rate).set("mfu", rate / peak);
              row.set("fraction_of_matmul_rate", rate / matmul_rate);
            });
}

std::vector<int> ranks_of(const Bench& bench) { return on_mpi() ? bench.ranks() : std::vector<int>{1}; }

/// Checks the options against the backend, and finds PyTorch if it is requested.
PyTorch check(Bench& bench, const GptProgramOptions& o) {
  if (!on_mpi()) bench.want_one_rank("for several use --backend mpi, or ./lab bench ddp");
  if (o.operations > 0 && !on_gpu())
    throw Error(Verdict::usage, "--operations needs --backend cuda: it reads a GPU's events");
  if (ranks_of(bench) != std::vector<int>{1} && parse_storage(o.dtype) != DType::f32)
    throw Error(Verdict::usage, "several ranks need --dtype fp32: their gradients are compared with a single rank's");
  if (o.pytorch.empty()) return {};
  if (!on_mpi())
    throw Error(
        Verdict::usage,
        "--pytorch needs --backend mpi: it measures PyTorch on the CPU; for a GPU run bench/programs/pytorch_step.py");
  if (o.dtype != "fp32") throw Error(Verdict::usage, "--pytorch: --dtype fp32");
  for (const std::string& how : o.pytorch)
    if (how != "eager" && how != "compiled")
      throw Error(Verdict::usage, fmt::format("--pytorch {}: eager, compiled, or both with a comma", how));
  PyTorch pytorch = find_pytorch();
  if (pytorch.version.empty())
    throw Error(Verdict::usage, "--pytorch: PyTorch was not found; set LOCKSTEP_PYTORCH to a Python that has it");
  bench.about().set("pytorch", pytorch.version);
  return pytorch;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::GptProgramOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--model", o.models,
             "presets, as for ./lab train: tiny, small, gpt2-124m, …; separate several with commas");
    line.add(
        "--dtype", o.dtype,
        "of storage: fp32, bf16 or fp16; AdamW keeps fp32. Default: fp32 on MPI, bf16 on a GPU, real or simulated");
    line.add("--batch", o.batch, "sequences per step", kSequences);
    line.add("--sequence", o.sequence, "tokens per sequence; 0: the model's context", kTokens);
    line.add("--vocabulary", o.vocabulary,
             "vocabulary size; 0: the model's. GPUs multiply rows of odd length slowly: use 50304 for GPT-2", kTokens);
    line.add("--matmul", o.matmul,
             "rows and columns of the square matrices that measure the reference rate; 0: 8192 on a GPU, else 1024",
             {0, 1 << 17});
    line.add("--operations", o.operations,
             "on a GPU: also time the operations of a step by events, and list this many, the slowest first",
             {0, 1000});
    line.add("--pytorch", o.pytorch,
             "on MPI: also measure PyTorch's step, eager or compiled, with one thread per rank; several ranks use "
             "DistributedDataParallel");
  };
  return bench::bench_main("gpt", "A training step of a GPT: tokens per second and model-FLOP utilisation.", argc, argv,
                           declare, [&](bench::Bench& bench) {
                             if (o.dtype.empty()) o.dtype = bench::on_mpi() ? "fp32" : "bf16";
                             const bench::PyTorch pytorch = check(bench, o);
                             for (const std::string& model : o.models)
                               for (const int ranks : bench::ranks_of(bench))
                                 add_model(bench, o, model, ranks, pytorch);
                             bench.run();
                           });
}

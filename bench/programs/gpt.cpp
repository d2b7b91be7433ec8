// One training step of a GPT on one rank: tokens a second, and how much of the computer's arithmetic that is.
//
//   ./lab bench gpt --model tiny --dtype fp32
//   ./lab bench gpt --backend cuda --model gpt2-124m --vocabulary 50304 --batch 16 --machine dgx-h200
//   ./lab bench gpt --machine dgx-h200 --phantom --model gpt2-124m,gpt2-355m --batch 16 --sequence 1024
//
// Model FLOP are what the model needs, whatever the program does: 6 a matrix parameter and token (N without positions,
// norms and biases; a tied head counts once), and 6 L C T a token for attention, whose causal mask leaves half of the
// 12 L C T of PaLM's formula (arXiv 2204.02311, appendix B). Beside the step, one large product of matrices in the same
// dtype is measured in the same run: no step can be faster than its model FLOP at that rate.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "bench/support/batch.hpp"
#include "bench/support/bench.hpp"
#include "bench/support/price.hpp"
#include "common/arithmetic.hpp"
#include "common/gpt/model/serial.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/storage.hpp"

namespace lockstep::bench {
namespace {

struct GptProgramOptions {
  std::vector<std::string> models{"tiny"};
  std::string dtype = "bf16";
  int batch = 8;       // sequences
  int sequence = 0;    // tokens of each; 0: the model's context
  int vocabulary = 0;  // 0: the model's
  int matmul = 0;      // rows and columns of the product; 0: 8192 on a GPU, real or priced, else 1024
};

struct StepShape {
  GptConfig model;
  std::size_t sequences = 0, length = 0;

  double tokens() const { return static_cast<double>(sequences * length); }
  double flop() const { return static_cast<double>(sequences) * model.step_flop(length); }
};

StepShape shape_of(const GptProgramOptions& o, const std::string& model) {
  StepShape shape{.model = gpt_preset(model), .sequences = static_cast<std::size_t>(o.batch)};
  if (o.vocabulary) shape.model.vocabulary = static_cast<std::size_t>(o.vocabulary);
  shape.length = o.sequence ? static_cast<std::size_t>(o.sequence) : shape.model.context;
  shape.model.context = std::max(shape.model.context, shape.length);
  shape.model.storage = parse_storage(o.dtype);
  return shape;
}

std::size_t matmul_size(const GptProgramOptions& o, bool phantom) {
  const std::string_view backend = backend_name();
  const bool gpu = phantom || backend == "cuda" || backend == "nccl";
  return static_cast<std::size_t>(o.matmul ? o.matmul : gpu ? 8192 : 1024);
}

/// Everything one rank needs for a step.
class Step {
 public:
  Step(Rank me, const StepShape& shape)
      : me_(me),
        gpt_(me, shape.model, /*seed=*/1),
        optimizer_(me, gpt_.parameters(), {}),
        saved_(gpt_.allocate_activations(me, shape.sequences, shape.length)),
        scalars_(allocate_step_scalars(me)) {
    batch_ = counted_batch(me, 0, shape.sequences, shape.length, shape.model.vocabulary);
    fill(me, gpt_.parameters().gradients, 0);
  }

  void act() { serial_step(me_, gpt_, optimizer_, std::span(&batch_, 1), saved_, scalars_, {}); }

  /// After the first step: a new model knows nothing, so its loss is near ln V; and after some steps it knows more.
  bool right() {
    const float first = read(me_, scalars_.loss, 0);
    for (int i = 0; i < 3; ++i) act();
    const float last = read(me_, scalars_.loss, 0);
    const double nothing = std::log(static_cast<double>(gpt_.config().vocabulary));
    return std::abs(first - nothing) < 0.1 * nothing && last < first;
  }

 private:
  Rank me_;
  Gpt gpt_;
  Optimizer optimizer_;
  Activations saved_;
  StepScalars scalars_;
  Batch batch_;
};

Prepared prepare_step(Rank me, const StepShape& shape) {
  auto step = std::make_shared<Step>(me, shape);
  return {.act = [step] { step->act(); }, .right = [step] { return step->right(); }};
}

/// c = a · b with n × n matrices of small random values, so that no chip saves power on zeros.
Prepared prepare_matmul(Rank me, std::size_t n, DType dtype) {
  std::array<Slice, 3> slices;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    slices[i] = me.allocate(n * n, dtype, Category::activation);
    random_normal(me, slices[i], {.seed = 1, .tensor = i}, 0, 0.1f);
  }
  return {.act = [=] { matmul(me, matrix(slices[2], n, n), matrix(slices[0], n, n), matrix(slices[1], n, n)); },
          .right = {}};
}

void add_model(Bench& bench, const GptProgramOptions& o, const std::string& name) {
  const StepShape shape = shape_of(o, name);
  const DType dtype = shape.model.storage;
  const RunOptions options = bench.run_options(1);
  const std::size_t n = matmul_size(o, options.phantom);
  std::vector<Contender> contenders = {
      {.name = "step", .prepare = [=](Rank me, Purpose) { return prepare_step(me, shape); }},
      {.name = "matmul", .prepare = [=](Rank me, Purpose) { return prepare_matmul(me, n, dtype); }}};
  if (bench.has_machine())
    for (Contender& contender : contenders)
      contender.predicted_seconds =
          priced_seconds(options.machine, [&](Rank me) { return contender.prepare(me, Purpose::time).act; });
  const double peak =
      bench.has_machine() ? options.machine.peak_flop_per_second[static_cast<std::size_t>(dtype)] : std::nan("");
  bench.add(fmt::format("{}/{} × {}", name, shape.sequences, shape.length), options, contenders,
            [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              const double matmul_flop = 2.0 * std::pow(static_cast<double>(n), 3);
              const double matmul_rate = matmul_flop / group[1].seconds.value;
              const double rate = i == 0 ? shape.flop() / group[0].seconds.value : matmul_rate;
              row.set("dtype", o.dtype);
              if (i == 0) {
                row.set("model", name).set("parameters", shape.model.parameters());
                row.set("vocabulary", shape.model.vocabulary);
                row.set("batch_sequences", shape.sequences).set("sequence_tokens", shape.length);
                row.set("tokens_per_second", shape.tokens() / group[0].seconds.value);
                row.set("model_flop_per_token", shape.flop() / shape.tokens());
              } else {
                row.set("matmul_size", n);
              }
              row.set("flop_per_second", rate).set("mfu", rate / peak);
              row.set("fraction_of_matmul_rate", rate / matmul_rate);
            });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::GptProgramOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--model", o.models, "presets, as of ./lab train: tiny, small, gpt2-124m, …; several with commas");
    line.add("--dtype", o.dtype, "of storage: fp32, bf16 or fp16; AdamW keeps fp32");
    line.add("--batch", o.batch, "sequences of a step", kSequences);
    line.add("--sequence", o.sequence, "tokens of each; 0: the model's context", kTokens);
    line.add("--vocabulary", o.vocabulary,
             "tokens it knows; 0: the model's. GPUs multiply rows of an odd length slowly: give GPT-2 50304", kTokens);
    line.add("--matmul", o.matmul,
             "rows and columns of the matrices whose product is the yardstick; 0: 8192 on a GPU, else 1024",
             {0, 1 << 17});
  };
  return bench::bench_main("gpt", "A training step of a GPT on one rank: tokens a second and model-FLOP utilisation.",
                           argc, argv, declare, [&](bench::Bench& bench) {
                             bench.want_one_rank("./lab bench ddp measures several");
                             for (const std::string& model : o.models) bench::add_model(bench, o, model);
                             bench.run();
                           });
}

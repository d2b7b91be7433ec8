// Tests of exercise 22.6: the same gradients, bit for bit; peak bytes and recomputed FLOP from the ledger; the formulas
// of the papers.
#include "labs/week22_zero/checkpointing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/batches.hpp"
#include "common/testing/cases.hpp"

namespace lockstep::week22 {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

constexpr std::size_t kSequences = 3, kLength = 8;

struct Shape {
  std::size_t layers;
  AttentionKind kind;
  DType dtype;
  std::string words() const {
    return fmt::format("{} block{}, {} attention, {}", layers, layers == 1 ? "" : "s",
                       kind == AttentionKind::flash ? "flash" : "materialised", to_string(dtype));
  }
};
/// What a case's size stands for.
const std::vector<Shape> kShapes = {{1, AttentionKind::materialised, DType::f32},
                                    {3, AttentionKind::materialised, DType::f32},
                                    {3, AttentionKind::flash, DType::f32},
                                    {4, AttentionKind::materialised, DType::bf16},
                                    {4, AttentionKind::flash, DType::bf16}};
const CasePlan kPlan{.ranks = {1}, .sizes = sizes_of({0, 1, 2, 3, 4}), .unit = "shape"};

GptConfig config_of(const Shape& shape) {
  GptConfig config{.layers = shape.layers, .heads = 2, .d_model = 16, .vocabulary = 13, .context = kLength};
  config.storage = shape.dtype;
  config.attention = shape.kind;
  return config;
}

struct Ran {
  std::vector<float> gradients;
  double flop = 0;        // of forward and backward
  double peak_bytes = 0;  // of activations
};

/// Two microbatches, the second smaller, with memory made by `recompute`.
Ran run_model(Rank me, const GptConfig& config, Recompute recompute) {
  Gpt gpt(me, config, 1);
  Activations saved = checkpointed_activations(me, gpt, kSequences, kLength, recompute);
  Slice loss = me.allocate(1, DType::f32, Category::buffer);
  fill(me, loss, 0);
  const double before = ledger_of(me).flop;
  for (std::size_t sequences : {kSequences, kSequences - 1}) {
    const Batch batch = model_tests::batch_by_formula(me, sequences, kLength, 13);
    Activations part = gpt.first_sequences(saved, sequences);
    gpt.forward(me, batch, part);
    cross_entropy(me, loss, part.logits, batch.targets, 0.05f);
    gpt.backward(me, batch, part);
  }
  Ran ran{to_host(me, gpt.parameters().gradients), ledger_of(me).flop - before, 0};
  ran.peak_bytes = static_cast<double>(ledger_of(me).memory.peak_of(Category::activation));
  return ran;
}

/// FLOP of running `f` once on activations as the model makes them, for both microbatches of run_model.
template <class F>
double flop_of(Rank me, const GptConfig& config, const F& f) {
  Gpt gpt(me, config, 1);
  Activations saved = gpt.allocate_activations(me, kSequences, kLength);
  const double before = ledger_of(me).flop;
  for (std::size_t sequences : {kSequences, kSequences - 1}) {
    Activations part = gpt.first_sequences(saved, sequences);
    for (std::size_t l = 0; l < config.layers; ++l) f(gpt, l, part);
  }
  return ledger_of(me).flop - before;
}

std::string wrong_gradients(const Shape& shape, const Values& kept, const Values& recomputed) {
  const GptConfig config = config_of(shape);
  for (const Parameter& parameter : gpt_parameter_table(config))
    for (std::size_t i = parameter.offset; i < parameter.offset + parameter.size; ++i)
      if (kept[i] != recomputed[i])
        return fmt::format(
            "{}: the gradient of {}[{}] is {:.7g}, with everything kept {:.7g}. A block's backward must find what its "
            "own forward left, to the bit",
            shape.words(), parameter.name, i - parameter.offset, recomputed[i], kept[i]);
  return "";
}

/// Gradients with everything kept, then with `recompute`.
void expect_the_same_gradients(Recompute recompute) {
  run_cases(
      [recompute](Rank me, const Case& c) {
        Values seen;
        for (Recompute how : {Recompute::none, recompute})
          for (float value : run_model(me, config_of(kShapes[c.size]), how).gradients) seen.push_back(value);
        return seen;
      },
      [](const Case& c, const Outcome& outcome) {
        const Values& seen = outcome.values[0];
        const auto half = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
        return wrong_gradients(kShapes[c.size], Values(seen.begin(), half), Values(half, seen.end()));
      },
      kPlan);
}

/// Bytes of everything that is not a block's: output, norm, logits, and the backward's six N·C.
double other_bytes(const GptConfig& config) {
  const std::size_t rows = kSequences * kLength, element = bytes_of(config.storage);
  return static_cast<double>((8 * config.d_model + config.vocabulary) * rows * element + 2 * rows * 4);
}

// Part a: full --------------------------------------------------------------------------------------------------------

TEST(Lab22_6a, GradientsAreThoseOfTheModelThatKeepsEverything) { expect_the_same_gradients(Recompute::full); }

TEST(Lab22_6a, EachBlockKeepsItsInputAndSharesTheRest) {
  run_cases([](Rank me,
               const Case& c) { return Values{run_model(me, config_of(kShapes[c.size]), Recompute::full).peak_bytes}; },
            [](const Case& c, const Outcome& outcome) -> std::string {
              const Shape& shape = kShapes[c.size];
              const GptConfig config = config_of(shape);
              const double rows = kSequences * kLength, element = static_cast<double>(bytes_of(shape.dtype));
              const double input = rows * 16 * element;
              const double attention = shape.kind == AttentionKind::flash ? rows * 2 * 4 : rows * 2 * kLength * element;
              const double block = 16 * input + 4 * rows * 4 + attention;
              const double expected = static_cast<double>(shape.layers - 1) * input + block + other_bytes(config);
              if (outcome.values[0][0] == expected) return "";
              return fmt::format(
                  "{}: activations peak at {} bytes, expected {}: {} inputs of {}, {} for the rest of one block, {} "
                  "for head and backward. {}",
                  shape.words(), outcome.values[0][0], expected, shape.layers, input, block - input,
                  other_bytes(config),
                  outcome.values[0][0] > expected ? "What else has a block of its own?" : "What is missing?");
            },
            kPlan);
}

TEST(Lab22_6a, ExtraWorkIsOneForwardOfTheBlocks) {
  run_cases(
      [](Rank me, const Case& c) {
        const GptConfig config = config_of(kShapes[c.size]);
        return Values{run_model(me, config, Recompute::none).flop, run_model(me, config, Recompute::full).flop,
                      flop_of(me, config, [&](const Gpt& gpt, std::size_t layer, Activations& saved) {
                        gpt.forward_block(me, layer, saved);
                      })};
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        const double extra = seen[1] - seen[0];
        if (extra == seen[2]) return "";
        return fmt::format(
            "{}: the backward recomputes {} FLOP; one forward of every block is {}. Each block is run "
            "again once, and no other with it",
            kShapes[c.size].words(), extra, seen[2]);
      },
      kPlan);
}

// Part b: selective ---------------------------------------------------------------------------------------------------

TEST(Lab22_6b, GradientsAreThoseOfTheModelThatKeepsEverything) { expect_the_same_gradients(Recompute::selective); }

TEST(Lab22_6b, BlocksShareTheProbabilitiesAndNothingElse) {
  run_cases(
      [](Rank me, const Case& c) {
        return Values{run_model(me, config_of(kShapes[c.size]), Recompute::selective).peak_bytes};
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const Shape& shape = kShapes[c.size];
        const GptConfig config = config_of(shape);
        const double rows = kSequences * kLength, element = static_cast<double>(bytes_of(shape.dtype));
        const bool flash = shape.kind == AttentionKind::flash;
        const double probabilities = flash ? 0 : rows * 2 * kLength * element;
        const double kept = 16 * rows * 16 * element + 4 * rows * 4 + (flash ? rows * 2 * 4 : 0);
        const double expected = static_cast<double>(shape.layers) * kept + probabilities + other_bytes(config);
        if (outcome.values[0][0] == expected) return "";
        return fmt::format(
            "{}: activations peak at {} bytes, expected {}: {} times {} that a block keeps, one time {} of "
            "probabilities, {} for head and backward",
            shape.words(), outcome.values[0][0], expected, shape.layers, kept, probabilities, other_bytes(config));
      },
      kPlan);
}

TEST(Lab22_6b, ExtraWorkIsTheScoresAlone) {
  run_cases(
      [](Rank me, const Case& c) {
        const GptConfig config = config_of(kShapes[c.size]);
        return Values{run_model(me, config, Recompute::none).flop, run_model(me, config, Recompute::selective).flop,
                      flop_of(me, config, [&](const Gpt& gpt, std::size_t layer, Activations& saved) {
                        if (config.attention == AttentionKind::flash) return;
                        const BlockShape shape = gpt.block_shape(saved.sequences, saved.length);
                        attention_probabilities(me, saved.blocks[layer].probabilities, saved.blocks[layer].qkv,
                                                shape.attention());
                      })};
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        if (seen[1] - seen[0] == seen[2]) return "";
        return fmt::format(
            "{}: the backward recomputes {} FLOP; the probabilities of all blocks are {}: neither the sums "
            "over values nor anything else is needed again",
            kShapes[c.size].words(), seen[1] - seen[0], seen[2]);
      },
      kPlan);
}

// Part c: formulas ----------------------------------------------------------------------------------------------------

const char* name_of(Recompute recompute) {
  return recompute == Recompute::none ? "none" : recompute == Recompute::full ? "full" : "selective";
}
constexpr Recompute kAll[] = {Recompute::none, Recompute::selective, Recompute::full};

TEST(Lab22_6c, BytesAreThoseOfTheLedger) {
  run_cases(
      [](Rank me, const Case& c) {
        const GptConfig config = config_of(kShapes[c.size]);
        Values seen;
        for (Recompute recompute : kAll) {
          seen.push_back(static_cast<double>(activation_bytes(config, kSequences, kLength, recompute)));
          Gpt gpt(me, config, 1);
          const Activations saved = checkpointed_activations(me, gpt, kSequences, kLength, recompute);
          seen.push_back(static_cast<double>(ledger_of(me).memory.live_of(Category::activation)));
        }
        return seen;
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        for (std::size_t i = 0; i < 3; ++i)
          if (outcome.values[0][2 * i] != outcome.values[0][2 * i + 1])
            return fmt::format("{}, recompute {}: by formula {} bytes of activations, in the ledger {}",
                               kShapes[c.size].words(), name_of(kAll[i]), outcome.values[0][2 * i],
                               outcome.values[0][2 * i + 1]);
        return "";
      },
      kPlan);
}

// Korthikanti et al., equation 1 and tables 2 and 4, for 16-bit activations, without dropout and its masks: s
// positions, b sequences, h channels, a heads. What they leave out are the norms' statistics: 16 bytes a row.
TEST(Lab22_6c, BytesAreThoseOfThePaper) {
  struct Row {
    const char* formula;
    AttentionKind kind;
    Recompute recompute;
    double (*bytes)(double s, double b, double h, double a, double layers);
  };
  const Row rows[] = {
      {"L·sbh(32 + 2as/h)", AttentionKind::materialised, Recompute::none,
       [](double s, double b, double h, double a, double l) { return l * s * b * h * (32 + 2 * a * s / h); }},
      {"L·32sbh + 2as²b, once", AttentionKind::materialised, Recompute::selective,
       [](double s, double b, double h, double a, double l) { return l * 32 * s * b * h + 2 * a * s * s * b; }},
      {"L·2sbh + sbh(30 + 2as/h), once", AttentionKind::materialised, Recompute::full,
       [](double s, double b, double h, double a, double l) {
         return l * 2 * s * b * h + s * b * h * (30 + 2 * a * s / h);
       }},
      {"L·(32sbh + 4asb)", AttentionKind::flash, Recompute::none,
       [](double s, double b, double h, double a, double l) { return l * (32 * s * b * h + 4 * a * s * b); }},
      {"L·(32sbh + 4asb)", AttentionKind::flash, Recompute::selective,
       [](double s, double b, double h, double a, double l) { return l * (32 * s * b * h + 4 * a * s * b); }},
      {"L·2sbh + 30sbh + 4asb, once", AttentionKind::flash, Recompute::full,
       [](double s, double b, double h, double a, double l) {
         return l * 2 * s * b * h + 30 * s * b * h + 4 * a * s * b;
       }}};
  for (const Row& row : rows) {
    const BlockShape shape{.sequences = 4, .length = 1024, .heads = 12, .d_model = 768, .kind = row.kind};
    const double statistics = 16.0 * 4096 * (row.recompute == Recompute::full ? 1 : 12);
    EXPECT_EQ(static_cast<double>(block_activation_bytes(shape, DType::bf16, 12, row.recompute)) - statistics,
              row.bytes(1024, 4, 768, 12, 12))
        << "recompute " << name_of(row.recompute) << ", 12 blocks of GPT-2 124M, without " << statistics
        << " bytes of the norms' statistics: expected " << row.formula;
  }
}

// 124M parameters on memory that does not exist: products are all but the elementwise operations, less than half a per
// cent here.
TEST(Lab22_6c, FlopAreThoseOfTheLedger) {
  CasePlan plan{
      .ranks = {1}, .sizes = sizes_of({0, 1}), .simulator_only = "memory that does not exist", .unit = "kind"};
  plan.adjust = [](const Case&, RunOptions& options) { options.phantom = true; };
  const auto config_of_kind = [](std::size_t kind) {
    GptConfig config = gpt_preset("gpt2-124m");
    config.storage = DType::bf16;
    config.attention = kind == 0 ? AttentionKind::flash : AttentionKind::materialised;
    return config;
  };
  run_cases(
      [&](Rank me, const Case& c) {
        const GptConfig config = config_of_kind(c.size);
        Gpt gpt(me, config, 1, Owns::values);
        Values seen;
        Activations kept = checkpointed_activations(me, gpt, 1, 1024, Recompute::none);
        const double before = ledger_of(me).flop;
        gpt.forward_block(me, 0, kept);
        seen.push_back(ledger_of(me).flop - before);
        kept = {};
        for (Recompute recompute : kAll) {
          Activations saved = checkpointed_activations(me, gpt, 1, 1024, recompute);
          const double now = ledger_of(me).flop;
          if (saved.restore) saved.restore(me, gpt, 3, saved);
          seen.push_back(ledger_of(me).flop - now);
        }
        return seen;
      },
      [&](const Case& c, const Outcome& outcome) -> std::string {
        const GptConfig config = config_of_kind(c.size);
        const BlockShape shape{1, 1024, config.heads, config.d_model, config.attention};
        const char* kind = c.size == 0 ? "flash" : "materialised";
        const auto far = [](double formula, double measured) {
          return std::abs(formula - measured) > 0.005 * measured;
        };
        const Values& seen = outcome.values[0];
        if (far(block_forward_flop(shape), seen[0]))
          return fmt::format("{} attention: a block's forward has {:.4g} FLOP by formula, {:.4g} in the ledger", kind,
                             block_forward_flop(shape), seen[0]);
        for (std::size_t i = 0; i < 3; ++i)
          if (far(recomputed_flop(shape, kAll[i]), seen[i + 1]))
            return fmt::format("{} attention, recompute {}: {:.4g} FLOP by formula, {:.4g} in the ledger", kind,
                               name_of(kAll[i]), recomputed_flop(shape, kAll[i]), seen[i + 1]);
        return "";
      },
      plan);
}

// "Full recomputation costs about 33 %": backward is two forwards, so one more on three.
TEST(Lab22_6c, OneForwardMoreIsAThird) {
  for (std::size_t length : {64, 1024, 8192}) {
    const BlockShape shape{1, length, 12, 768, AttentionKind::materialised};
    EXPECT_NEAR(recomputed_flop(shape, Recompute::full) / (3 * block_forward_flop(shape)), 1.0 / 3, 1e-12);
  }
  const BlockShape gpt3{1, 2048, 96, 12288, AttentionKind::materialised};
  const double share = recomputed_flop(gpt3, Recompute::selective) / (3 * block_forward_flop(gpt3));
  EXPECT_NEAR(share, 2049.0 / (72 * 12288 + 6 * 2049), 1e-12) << "GPT-3's scores are a small part of its work";
}

}  // namespace
}  // namespace lockstep::week22

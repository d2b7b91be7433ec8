// Tests of exercise 22.6: the same gradients, bit for bit; peak bytes and recomputed FLOP from the ledger.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/batches.hpp"
#include "labs/week22_zero/checkpointing_testing.hpp"

namespace lockstep::week22::checkpointing {
namespace {

using testing::Case;
using testing::run_cases;

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
          for (float value : run_model(me, config_of(shape_of(c)), how).gradients) seen.push_back(value);
        return seen;
      },
      [](const Case& c, const Outcome& outcome) {
        const Values& seen = outcome.values[0];
        const auto half = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
        return wrong_gradients(shape_of(c), Values(seen.begin(), half), Values(half, seen.end()));
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
  run_cases(
      [](Rank me, const Case& c) { return Values{run_model(me, config_of(shape_of(c)), Recompute::full).peak_bytes}; },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const Shape shape = shape_of(c);
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
            shape.words(), outcome.values[0][0], expected, shape.layers, input, block - input, other_bytes(config),
            outcome.values[0][0] > expected ? "What else does each block keep for itself?" : "What is missing?");
      },
      kPlan);
}

TEST(Lab22_6a, ExtraWorkIsOneForwardOfTheBlocks) {
  run_cases(
      [](Rank me, const Case& c) {
        const GptConfig config = config_of(shape_of(c));
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
            "again exactly once",
            shape_of(c).words(), extra, seen[2]);
      },
      kPlan);
}

// Part b: selective ---------------------------------------------------------------------------------------------------

TEST(Lab22_6b, GradientsAreThoseOfTheModelThatKeepsEverything) { expect_the_same_gradients(Recompute::selective); }

TEST(Lab22_6b, BlocksShareTheProbabilitiesAndNothingElse) {
  run_cases(
      [](Rank me, const Case& c) {
        return Values{run_model(me, config_of(shape_of(c)), Recompute::selective).peak_bytes};
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const Shape shape = shape_of(c);
        const GptConfig config = config_of(shape);
        const double rows = kSequences * kLength, element = static_cast<double>(bytes_of(shape.dtype));
        const bool flash = shape.kind == AttentionKind::flash;
        const double probabilities = flash ? 0 : rows * 2 * kLength * element;
        const double kept = 16 * rows * 16 * element + 4 * rows * 4 + (flash ? rows * 2 * 4 : 0);
        const double expected = static_cast<double>(shape.layers) * kept + probabilities + other_bytes(config);
        if (outcome.values[0][0] == expected) return "";
        return fmt::format(
            "{}: activations peak at {} bytes, expected {}: {} times {} that a block keeps, once {} of "
            "probabilities, {} for head and backward",
            shape.words(), outcome.values[0][0], expected, shape.layers, kept, probabilities, other_bytes(config));
      },
      kPlan);
}

TEST(Lab22_6b, ExtraWorkIsTheScoresAlone) {
  run_cases(
      [](Rank me, const Case& c) {
        const GptConfig config = config_of(shape_of(c));
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
            shape_of(c).words(), seen[1] - seen[0], seen[2]);
      },
      kPlan);
}

}  // namespace
}  // namespace lockstep::week22::checkpointing

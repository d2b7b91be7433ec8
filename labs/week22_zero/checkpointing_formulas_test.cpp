// Tests of 22.6c: the formulas of bytes and FLOP against the ledger, and against the papers' numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/answered.hpp"
#include "labs/week22_zero/checkpointing_testing.hpp"

namespace lockstep::week22::checkpointing {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto block_activation_bytes = testing::answer<week22::block_activation_bytes>;
constexpr auto recomputed_flop = testing::answer<week22::recomputed_flop>;

const char* name_of(Recompute recompute) {
  return recompute == Recompute::none ? "none" : recompute == Recompute::full ? "full" : "selective";
}
constexpr Recompute kAll[] = {Recompute::none, Recompute::selective, Recompute::full};

TEST(Lab22_6c, BytesAreThoseOfTheLedger) {
  run_cases(
      [](Rank me, const Case& c) {
        const GptConfig config = config_of(shape_of(c));
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
                               shape_of(c).words(), name_of(kAll[i]), outcome.values[0][2 * i],
                               outcome.values[0][2 * i + 1]);
        return "";
      },
      kPlan);
}

// Korthikanti et al., equation 1 and tables 2 and 4, for 16-bit activations, without dropout and its masks: s
// positions, b sequences, h channels, a heads. They leave out the norms' statistics: 16 bytes a row.
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
      .ranks = {1}, .sizes = sizes_of({0, 1}), .simulator_only = "memory that does not exist", .which = "kind"};
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
          return !(std::abs(formula - measured) <= 0.005 * measured);
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
    EXPECT_NEAR(recomputed_flop(shape, Recompute::full) / (3 * block_forward_flop(shape)), 1.0 / 3, 1e-9)
        << "sequences of " << length << ": full recomputation is one forward more, on a forward and a backward, which "
        << "are three";
  }
  const BlockShape gpt3{1, 2048, 96, 12288, AttentionKind::materialised};
  const double share = recomputed_flop(gpt3, Recompute::selective) / (3 * block_forward_flop(gpt3));
  EXPECT_NEAR(share, 2049.0 / (72 * 12288 + 6 * 2049), 1e-9) << "GPT-3's scores are a small part of its work";
}

}  // namespace
}  // namespace lockstep::week22::checkpointing

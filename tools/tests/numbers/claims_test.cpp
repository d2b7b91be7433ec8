// Rows of docs/learn/claims.md that follow by arithmetic, or from a command: what the other claims tests do not
// measure.
#include <gtest/gtest.h>

#include <cmath>

#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

using week22::Recipe;

class Claims : public Programs {};

TEST_F(Claims, MemoryOfGpt3AndPalm) {
  Page page("docs/learn/claims.md");
  const auto gb = [](double parameters, const Recipe& recipe) {
    return week22::model_state(parameters, 0, 1, recipe).total_bytes() / 1e9;
  };
  const auto gpus = [](double parameters, const Recipe& recipe) {
    return fixed(week22::fewest_ranks(parameters, 3, recipe, 80e9));
  };
  constexpr double kGpt3 = 175e9, kPalm = 540e9;
  const Recipe all = week22::recipe_of(DType::bf16);
  const Recipe ddp{.gradient = 0, .master = 0, .moments = 4}, fsdp{.master = 0, .moments = 4}, wide{.gradient = 2 + 4};
  page.says("16 · 175 = {} GB; /16 = {} GB; the least number of 80 GB GPUs is {}",
            {fixed(gb(kGpt3, all)), fixed(gb(kGpt3, all) / 16), gpus(kGpt3, all)});
  page.says(
      "{} GB are {} bytes per parameter: of the {} GB that are missing, {} are gradients, {} the fp32 copy, and {} "
      "the other half of m and v, which {} GB hold in 16 bits. {} GB are {} bytes per parameter, with gradients",
      {fixed(gb(kGpt3, ddp)), fixed(gb(1e9, ddp)), fixed(gb(kGpt3, all) - gb(kGpt3, ddp)), fixed(175 * all.gradient),
       fixed(175 * all.master), fixed(175 * (all.moments - ddp.moments)), fixed(175 * ddp.moments),
       fixed(gb(kGpt3, fsdp) / 16, 1), fixed(gb(1e9, fsdp))});
  page.says(
      "{} bytes per parameter (16-bit weights and gradients; fp32 weights, gradients, m and v) over 80 GB: {}/80 = "
      "{} and {}/80 = {}.",
      {fixed(gb(1e9, wide)), fixed(gb(kGpt3, wide)), fixed(gb(kGpt3, wide) / 80, 2), fixed(gb(kPalm, wide)),
       fixed(gb(kPalm, wide) / 80)});
  EXPECT_EQ(gpus(kGpt3, wide), "44");
  EXPECT_EQ(gpus(kPalm, wide), "135");
  const Recipe weights{.gradient = 0, .master = 0, .moments = 0};
  page.says("{} and {}; at 16 bytes {} and {}",
            {gpus(kGpt3, weights), gpus(kPalm, weights), gpus(kGpt3, all), gpus(kPalm, all)});
}

TEST_F(Claims, FsdpAgainstDdp) {
  Page page("docs/learn/claims.md");
  const auto percent = [&](const char* machine, int ranks, int tokens) {
    return fixed(std::abs(100 * (of_ddp(machine, ranks, tokens, 3) - 1)));
  };
  page.says(
      "PCIe box, 4 ranks: {} / {} / {}% with 2,048 / 4,096 / 8,192 tokens per rank; 10 GbE: {}%; 8 A100: it is "
      "{} / {} / {}% *faster*",
      {percent("pcie-box", 4, 2048), percent("pcie-box", 4, 4096), percent("pcie-box", 4, 8192),
       percent("dgx-a100-10gbe", 16, 8192), percent("dgx-a100", 8, 2048), percent("dgx-a100", 8, 4096),
       percent("dgx-a100", 8, 8192)});
}

}  // namespace
}  // namespace lockstep::numbers

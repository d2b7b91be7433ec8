// Tests of the terms of predictions: each can be left out alone, and matters somewhere.
#include "tools/plan/terms.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tools/plan/plan_testing.hpp"
#include "tools/plan/validate.hpp"

namespace lockstep::plan {
namespace {

const std::string kTermsRoot = LOCKSTEP_SOURCE_DIR;

double mean_error(const std::string& table, const Without& lacking) {
  const std::string path = kTermsRoot + "/bench/published/predict/" + table + ".json";
  double sum = 0;
  const ValidatedTable validated = validate(kTermsRoot, path, lacking).at(0);
  for (const Validated& row : validated.rows) sum += row.error() / static_cast<double>(validated.rows.size());
  return sum;
}

TEST(Terms, EachOneMatters) {
  // Without it all is faster, but where it makes a run shorter: a checkpoint that stops early, and a tree instead of a
  // ring.
  const std::map<std::string, std::string> tables{
      {"fp32-gradients", "llama3"},
      {"sustained-rate", "megatron-ptd"},
      {"early-stop", "torchtitan-a100"},
      {"exposed", "megatron-ptd"},
      {"occupied", "pytorch-fsdp"},
      {"copies", "pytorch-fsdp"},
      {"host", "bloom-february"},
      {"passes", "megatron-weak-scaling"},
      {"update", "mpt-h100"},
      {"trees", "nccl-nodes"},
      {"slowest-card", "megatron-weak-scaling"},
  };
  ASSERT_EQ(tables.size(), terms().size());
  for (const Term& term : terms()) {
    const std::string& table = tables.at(term.name);
    const double with = mean_error(table, {}), lacking = mean_error(table, without(term.name));
    if (std::string(term.name) == "early-stop" || std::string(term.name) == "trees") {
      EXPECT_GT(lacking, with) << term.name;
    } else {
      EXPECT_LT(lacking, with) << term.name;
    }
  }
}

TEST(Terms, AreLeftOutTogether) {
  const double both = mean_error("pytorch-fsdp", without("copies,occupied"));
  EXPECT_LT(both, mean_error("pytorch-fsdp", without("copies")));
  EXPECT_LT(both, mean_error("pytorch-fsdp", without("occupied")));
  EXPECT_TRUE(without("").left_out.empty());
}

TEST(Terms, AnUnknownOneIsRefused) {
  EXPECT_TRUE(contains(refusal([] { (void)without("hosts"); }), "did you mean 'host'?"));
  EXPECT_TRUE(contains(said("--without host"), "--without is for ./lab validate"));
  EXPECT_TRUE(contains(said("--validate --without list"), "slowest-card    without: all cards are the same"));
}

}  // namespace
}  // namespace lockstep::plan

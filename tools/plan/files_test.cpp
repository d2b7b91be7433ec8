// Tests of what users write for ./lab plan: names of clusters, and files of strategies.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tools/plan/plan_testing.hpp"
#include "tools/plan/strategy_file.hpp"

namespace lockstep::plan {
namespace {

using week25::Strategy;

TEST(Cluster, NodesOfANodesFileAreJoinedByItsFastestNetwork) {
  const Cluster cluster = find_cluster("dgx-a100x128", kMachines);
  EXPECT_EQ(cluster.gpus, 1024);
  EXPECT_EQ(cluster.nodes, 128);
  EXPECT_EQ(cluster.network, "dgx-a100-hdr");
  EXPECT_EQ(cluster.machine.levels.size(), 2u);
}

TEST(Cluster, AClustersFileSaysItsNetwork) {
  const Cluster cluster = find_cluster("dgx-a100-10gbex4", kMachines);
  EXPECT_EQ(cluster.gpus, 32);
  EXPECT_EQ(cluster.network, "");
  EXPECT_EQ(find_cluster("dgx-h100", kMachines).gpus, 8);
  EXPECT_EQ(find_cluster("uniformx16", kMachines).gpus, 16);
}

TEST(Cluster, WhatIsUnknownIsAnsweredWithTheNearest) {
  const auto error = [](const std::string& name) { return refusal([&] { find_cluster(name, kMachines); }); };
  EXPECT_TRUE(contains(error("dgx-a10x4"), "did you mean 'dgx-a100'?")) << error("dgx-a10x4");
  EXPECT_TRUE(contains(error("dgx-a100-hdr"), "dgx-a100-hdrx16")) << error("dgx-a100-hdr");
  EXPECT_TRUE(contains(error("dgx-a100x0"), "from 1 to")) << error("dgx-a100x0");
  EXPECT_TRUE(contains(error("laptopx2"), "no machine file describes a network between")) << error("laptopx2");
}

TEST(StrategyFile, ReadsWhatItWrites) {
  const Strategy strategy{.dp = 8,
                          .tp = 4,
                          .pp = 2,
                          .microbatch = 3,
                          .schedule = "interleaved",
                          .chunks = 2,
                          .zero = 1,
                          .recompute = true,
                          .sequence_parallel = true};
  const std::string path = ::testing::TempDir() + "/strategy.json";
  std::ofstream(path) << strategy_json(strategy);
  EXPECT_EQ(format_strategy(read_strategy(path)), format_strategy(strategy));
  EXPECT_TRUE(has_fields(strategy, wanted_fields("dp=8,schedule=interleaved,recompute=full")));
  const Strategy selective = parse_strategy(R"({"dp": 8, "recompute": "selective"})", "");
  EXPECT_TRUE(selective.selective && !selective.recompute);
  EXPECT_TRUE(has_fields(selective, wanted_fields("recompute=selective")));
  EXPECT_FALSE(has_fields(strategy, wanted_fields("dp=8,zero=0")));
  std::remove(path.c_str());
}

TEST(StrategyFile, SaysWhatIsWrong) {
  const std::string path = ::testing::TempDir() + "/wrong_strategy.json";
  const auto error = [&](const std::string& text) {
    std::ofstream(path) << text;
    return refusal([&] { read_strategy(path); });
  };
  EXPECT_TRUE(contains(error(R"({"pd": 8})"), "did you mean 'pp'?") ||
              contains(error(R"({"pd": 8})"), "did you mean 'dp'?"));
  EXPECT_TRUE(contains(error(R"({"dp": 0})"), "dp is 0; it must be a whole number from 1"));
  EXPECT_TRUE(contains(error(R"({"zero": 4})"), "zero is 4; it must be a whole number from 0 to 3"));
  EXPECT_TRUE(contains(error(R"({"schedule": "1f2b"})"), "did you mean '1f1b'?"));
  EXPECT_TRUE(contains(error(R"({"recompute": "some"})"), "none, full, or, with materialised attention, selective"));
  EXPECT_TRUE(contains(error("[1]"), "is not a JSON object"));
  EXPECT_TRUE(contains(refusal([] { wanted_fields("dp"); }), "name=value"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace lockstep::plan

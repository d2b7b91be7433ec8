// ./lab bench experts, from outside.
#include <cmath>
#include <map>
#include <string>

#include "bench/programs/bench_program.hpp"

namespace lockstep::bench {
namespace {

TEST_F(BenchProgram, ExpertsSendWhatTheirFormulasSay) {
  for (const int p : {1, 2, 3, 8})
    for (const std::string skew : {"0", "0.03125", "0.5"})
      for (const std::string more : {"", " --machine dgx-a100 --phantom"}) {
        // Counts are whole numbers, which round shares of 3,072 slots over 12 p experts.
        const std::string arguments = "--tokens 1536 --channels 64 --experts " + std::to_string(12 * p) + " --ranks " +
                                      std::to_string(p) + " --skew " + skew + more;
        const Json rows = rows_of(arguments, "experts");
        ASSERT_EQ(rows.size(), 1U);
        const Json& row = rows[0];
        EXPECT_EQ(row.at("verified"), more.empty()) << arguments;
        const double all = 3072 * 64 * 2, share = skew == "0" ? 1.0 / (12 * p) : std::stod(skew);
        const double rest = (1 - share) / (12 * p - 1);
        const double busiest = p == 1 ? 1 : std::max(share + 11 * rest, 12 * rest);
        EXPECT_NEAR(field(row, "predicted_busiest"), p * busiest, 1e-9) << arguments;
        EXPECT_NEAR(field(row, "busiest") / (p * busiest), 1, 0.03) << arguments;
        EXPECT_NEAR(field(row, "bytes_sent_per_rank"), 2 * all * (p - 1) / p, 1e-6) << arguments;
        EXPECT_NEAR(field(row, "predicted_bytes_sent_per_rank"), 2 * all * (p - 1) / p, 1e-6) << arguments;
        EXPECT_NEAR(field(row, "bytes_sent_per_rank_max"), field(row, "predicted_bytes_sent_per_rank_max"), 0.03 * all)
            << arguments;
        EXPECT_LE(field(row, "predicted_seconds"), 1.0001 * field(row, "seconds")) << "a lower bound, " << arguments;
        EXPECT_GT(field(row, "predicted_seconds"), 0.6 * field(row, "seconds")) << arguments;
      }
}

TEST_F(BenchProgram, HalfOfAllSlotsToOneExpertMakesEverybodyWaitForIt) {
  const Json rows = rows_of("--machine dgx-a100 --ranks 8 --channels 4096 --skew 0,0.5 --phantom", "experts");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_NEAR(field(rows[1], "busiest"), 4, 1e-9);
  EXPECT_GT(field(rows[1], "seconds"), 2.5 * field(rows[0], "seconds"));
  EXPECT_EQ(field(rows[1], "bytes_sent_per_rank"), field(rows[0], "bytes_sent_per_rank"));
}

TEST_F(BenchProgram, ACapacityBoundsTheBusiestExpert) {
  const Json rows = rows_of(
      "--machine dgx-a100 --ranks 8 --tokens 4096 --channels 4096 --skew 0,0.5 --capacity-factor 1.25 --phantom",
      "experts");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(field(rows[0], "dropped"), 0);
  EXPECT_NEAR(field(rows[1], "dropped"), 0.5 - 1.25 / 8, 1e-3);
  EXPECT_NEAR(field(rows[1], "predicted_dropped"), 0.5 - 1.25 / 8, 1e-9);
  EXPECT_NEAR(field(rows[1], "busiest"), 1.25, 1e-9);
  EXPECT_EQ(field(rows[1], "bytes_sent_per_rank_max"), (4096 + 7 * 1280) * 4096 * 2);
  EXPECT_LT(field(rows[1], "seconds"), 2 * field(rows[0], "seconds"));
  for (const Json& row : rows_of("--ranks 2 --experts 4 --skew 0,0.5 --capacity-factor 0.75", "experts"))
    EXPECT_EQ(row.at("verified"), true);
}

TEST_F(BenchProgram, ExpertsRefuseWhatNoRouterDoes) {
  const std::map<std::string, std::string> words{{"--skew 0.6", "from 0 to 1/k = 0.5"},
                                                 {"--skew -1", "from 0"},
                                                 {"--top-k 4 --skew 0.1", "from 0.25 to 1/k = 0.25"},
                                                 {"--ranks 1 --top-k 1 --skew 0.5", "from 1 to 1/k = 1"},
                                                 {"--skew x", "--skew x"},
                                                 {"--experts 6", "6 experts cannot be divided over 4 ranks"},
                                                 {"--top-k 5", "5 is more than 4 experts"},
                                                 {"--ranks 1", "2 is more than 1 expert"},
                                                 {"--dtype fp8", "bf16"}};
  for (const auto& [arguments, expected] : words) expect_refused(start(arguments, "experts"), arguments, expected);
}

}  // namespace
}  // namespace lockstep::bench

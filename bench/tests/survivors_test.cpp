// ./lab bench survivors, and ./lab bench saving --ranks, from outside.
#include <cmath>
#include <map>
#include <string>

#include "bench/programs/bench_program.hpp"

namespace lockstep::bench {
namespace {

TEST_F(BenchProgram, SurvivorsSendWhatTheirFormulasSay) {
  for (const int p : {3, 4, 7, 16})
    for (const std::string more : {"", " --machine dgx-h100-ndr --phantom"}) {
      const double parameters = 40.0 * p * (p - 1);
      const std::string arguments =
          "--ranks " + std::to_string(p) + " --parameters " + std::to_string(static_cast<int>(parameters)) + more;
      const Json rows = rows_of(arguments, "survivors");
      ASSERT_EQ(rows.size(), 6U) << arguments;
      for (const Json& row : rows) {
        const double dead = field(row, "dead"), all = 12 * parameters;
        const bool snapshot = row.at("algorithm") == "snapshot";
        const double right = snapshot ? all : 12 * 40 * dead * (dead + 1) / 2;
        EXPECT_EQ(field(row, "bytes_sent"), right) << arguments << ", rank " << dead;
        EXPECT_EQ(field(row, "predicted_bytes_sent"), right) << arguments << ", rank " << dead;
        EXPECT_EQ(row.at("verified"), more.empty()) << arguments;
      }
    }
}

TEST_F(BenchProgram, SurvivorsTakeTheTimeOfTheirBusiestPort) {
  for (const std::string machine : {"dgx-h100-ndr", "dgx-a100-hdr"}) {
    const Json rows = rows_of("--ranks 32 --parameters 1e9 --phantom --machine " + machine, "survivors");
    for (const Json& row : rows)
      EXPECT_NEAR(field(row, "predicted_seconds") / field(row, "seconds"), 1, 0.02)
          << machine << ": " << row.at("algorithm");
  }
}

TEST_F(BenchProgram, SurvivorsRefuseWhatCannotBe) {
  const std::map<std::string, std::string> words{{"--ranks 2", "at least 3 ranks"},
                                                 {"--ranks 4 --dead 4", "numbers from 0 to 3"},
                                                 {"--ranks 4 --dead x", "numbers from 0 to 3"},
                                                 {"--ranks 4 --parameters 0", "--parameters"}};
  for (const auto& [arguments, expected] : words) expect_refused(start(arguments, "survivors"), arguments, expected);
}

TEST_F(BenchProgram, GoingOnIsWorthMoreWhereFailuresAreFrequent) {
  const Json rows = rows_of("--ranks 16384", "saving");
  ASSERT_EQ(rows.size(), 5U);
  double gain = 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    EXPECT_NEAR(field(row, "mtbf_seconds"), 3.1 * 3600 * std::pow(4.0, static_cast<double>(i) - 2), 1e-6);
    const double gained = field(row, "survivors_goodput") - field(row, "restart_goodput");
    EXPECT_GT(gained, 0) << i;
    EXPECT_LT(gained, gain) << i;
    gain = gained;
    EXPECT_LT(field(row, "survivors_interval_seconds"), field(row, "restart_interval_seconds")) << i;
    const double mtbf = 16384 * field(row, "mtbf_seconds");  // of a rank
    EXPECT_NEAR(field(row, "seconds_to_loss") / (mtbf * mtbf / (2 * 16384 * 60.2)), 1, 1e-9) << i;
  }
}

}  // namespace
}  // namespace lockstep::bench

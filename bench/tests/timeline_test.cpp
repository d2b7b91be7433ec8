// The run that --timeline records is the one that is measured.
#include <map>
#include <string>

#include "bench/programs/bench_program.hpp"

namespace lockstep::bench {
namespace {

/// When the last event of a trace ends, in seconds.
double end_of(const std::string& path) {
  double end = 0;
  const Json trace = Json::parse(TestFolder::read(path));
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") end = std::max(end, event.at("ts").get<double>() + event.at("dur").get<double>());
  return 1e-6 * end;
}

TEST_F(BenchProgram, ATimelineLastsAsLongAsWhatIsMeasured) {
  const std::map<std::string, std::string> benchmarks{
      {"all_reduce", "--ranks 4 --bytes 64KiB,1MiB --algorithm ring,recursive_doubling"},
      {"ddp", "--ranks 2 --model tiny --machine pcie-box-10gbe"},
      {"tp", "--ranks 2 --machine dgx-a100 --d-model 64 --layers 2"},
      {"zero", "--ranks 2 --phantom --stages 1,3"}};
  for (const auto& [name, arguments] : benchmarks) {
    std::map<std::string, double> measured;
    for (const Json& row : rows_of(arguments + " --timeline " + file(name.c_str()), name))
      if (row.contains("samples")) measured.try_emplace(row.at("algorithm"), row.at("seconds"));
    int drawn = 0;
    for (const auto& [contender, seconds] : measured) {
      const std::string path = file(name.c_str()) + "_" + contender + ".trace";
      if (!fs::exists(path)) continue;
      ++drawn;
      EXPECT_NEAR(end_of(path), seconds, 2e-9 + 1e-3 * seconds) << name << " " << contender;
    }
    EXPECT_EQ(drawn, name == "tp" ? 4 : 2) << name;
  }
}

TEST_F(BenchProgram, PipelinesAreRecordedByTheirSchedules) {
  for (const Json& row :
       rows_of("--stages 4 --microbatches 8 --schedule gpipe,1f1b --comm-ms 0.1 --timeline " + file("p"), "pipeline"))
    EXPECT_NEAR(end_of(file("p") + "_" + row.at("schedule").get<std::string>() + ".trace"), row.at("makespan_seconds"),
                1e-6);
}

TEST_F(BenchProgram, WhereNothingIsMeasuredNothingIsDrawn) {
  EXPECT_EQ(start("--ring-attention 1024 --ranks 2 --timeline " + file("none"), "tp"), 2);
  EXPECT_NE(err_.find("measures nothing here that has a timeline"), std::string::npos) << err_;
}

}  // namespace
}  // namespace lockstep::bench

// Calibration: the fit, ./lab bench calibrate from outside, and what is predicted from its machine.
#include "bench/support/calibration.hpp"

#include <cmath>
#include <string>

#include "bench/programs/bench_program.hpp"

namespace lockstep::bench {
namespace {

/// Noise of at most 3 %, the same on every run.
class Noise {
 public:
  double operator()(double value) {
    state_ = state_ * 1664525u + 1013904223u;
    return value * (1 + 0.06 * (static_cast<double>(state_ >> 8) / (1 << 24) - 0.5));
  }

 private:
  std::uint32_t state_ = 1;
};

TEST(Calibration, FindsTheConstantsThroughNoise) {
  const double alpha = 2e-6, beta = 2e-10, launch = 3e-7, memory = 2e10, peak = 1e11;
  Noise noisy;
  Readings readings;
  for (double bytes = 4; bytes <= 4 << 20; bytes *= 4) {
    readings.messages.push_back({.bytes = bytes, .seconds = noisy(alpha + beta * bytes)});
    readings.copies.push_back({.bytes = bytes, .seconds = noisy(launch + 2 * bytes / memory)});
  }
  for (std::size_t n = 16; n <= 1024; n *= 2) {
    const double flop = 2.0 * static_cast<double>(n * n * n);
    readings.squares.push_back({.m = n, .n = n, .k = n, .seconds = noisy(launch + 1e-6 + flop / peak)});
  }
  readings.halves.push_back({.m = 1024, .n = 1024, .k = 1024, .dtype = DType::bf16});
  readings.halves[0].seconds = launch + readings.halves[0].flop() / (4 * peak);
  const Machine machine = fit_machine(readings, unmeasured_of_host(8e9, 4)).machine;
  EXPECT_EQ(machine.memory_bytes, 2e9) << "of one rank";
  EXPECT_NEAR(machine.alpha(0) / alpha, 1, 0.03);
  EXPECT_NEAR(machine.beta(0) / beta, 1, 0.03);
  EXPECT_NEAR(machine.launch / launch, 1, 0.03);
  EXPECT_NEAR(machine.memory_bytes_per_second / memory, 1, 0.03);
  EXPECT_NEAR(machine.peak_flop_per_second[static_cast<std::size_t>(DType::f32)] / peak, 1, 0.04);
  EXPECT_NEAR(machine.peak_flop_per_second[static_cast<std::size_t>(DType::bf16)] / (4 * peak), 1, 0.08);
  EXPECT_LT(std::abs(worst_residual(machine, readings.messages, predicted_message)), 0.06);
  EXPECT_LT(std::abs(worst_residual(machine, readings.squares, predicted_product)), 0.06);
  readings.messages.resize(1);
  EXPECT_THROW(fit_machine(readings, {}), Error);
}

TEST_F(BenchProgram, CalibrationReadsBackTheMachineThatIsSimulated) {
  for (const char* name : {"laptop", "dgx-a100", "dgx-h100"}) {
    const Machine truth = read_machine(std::string(LOCKSTEP_SOURCE_DIR "/bench/machines/") + name + ".json");
    const Json rows = rows_of(std::string("--ranks 2 --machine ") + name + " --output " + file("m.json"), "calibrate");
    const Machine found = read_machine(file("m.json"));
    EXPECT_NEAR(found.alpha(0) / truth.alpha(0), 1, 1e-6) << name;
    EXPECT_NEAR(found.beta(0) / truth.beta(0), 1, 1e-6) << name;
    EXPECT_NEAR(found.memory_bytes_per_second / truth.memory_bytes_per_second, 1, 1e-6) << name;
    EXPECT_NEAR(found.launch / truth.launch, 1, 1e-6) << name;
    EXPECT_NEAR(found.memory_bytes / truth.memory_bytes, 1, 1e-6) << name;
    EXPECT_EQ(found.eager_bytes, truth.eager_bytes) << name;
    for (const Json& row : rows) {
      const double bound = row.at("kind") == "other product" ? 0.1 : 1e-6;
      EXPECT_NEAR(row.at("residual"), 0, bound) << name << ": " << row;
    }
    const Json document = Json::parse(read(file("m.json")));
    for (const char* field : {"date", "commit", "versions", "cores"})
      EXPECT_TRUE(document.at("measured").at("context").contains(field)) << field;
    EXPECT_EQ(document.at("measured").at("rows"), rows);
    EXPECT_EQ(document.at("sources").size(), 9u);
    const auto of_kind = [&](const char* kind) {
      return std::count_if(rows.begin(), rows.end(), [&](const Json& row) { return row.at("kind") == kind; });
    };
    EXPECT_EQ(of_kind("message"), 9);
    EXPECT_EQ(of_kind("one way"), 9) << "links of a machine are full duplex: their residuals are 0 too";
  }
}

TEST_F(BenchProgram, CalibrationThatCannotBeWrittenSaysSoFirst) {
  EXPECT_EQ(start("--output /dev/null/m.json", "calibrate"), 2);
  EXPECT_NE(err_.find("cannot write /dev/null/m.json"), std::string::npos) << err_;
  EXPECT_EQ(out_, "");
  EXPECT_EQ(start("--ranks 1 --output " + file("m.json"), "calibrate"), 2);
  EXPECT_EQ(start("--ranks 2,4 --output " + file("m.json"), "calibrate"), 2);
  EXPECT_FALSE(fs::exists(file("m.json")));
}

TEST_F(BenchProgram, OnMpiPredictionsStartFromTheCalibratedMachine) {
  if (std::string_view(LOCKSTEP_LAUNCH_TWO).empty()) GTEST_SKIP() << "no MPI in this build";
  const std::string machines = "LOCKSTEP_MACHINES=" + folder_.string();
  setenv("LOCKSTEP_MACHINES", folder_.c_str(), 1);
  const std::string place = calibrated_file("mpi");
  unsetenv("LOCKSTEP_MACHINES");
  ASSERT_EQ(start("--machine laptop --output " + place, "calibrate"), 0) << err_;
  backend_ = "mpi";
  before_ = machines + " " + LOCKSTEP_LAUNCH_TWO;
  const std::string arguments = "--bytes 1MiB --ranks 2 --samples 5 --algorithm ring ";
  const Json row = rows_of(arguments, "all_reduce")[0];
  EXPECT_NE(out_.find("predicting from " + place), std::string::npos) << out_;
  EXPECT_EQ(row.at("machine"), "host");
  const double half = 1 << 19;  // of laptop.json: α 1 µs, 5 GB/s, 10 GB/s of memory, 200 ns
  EXPECT_NEAR(row.at("predicted_seconds"), 2 * (1e-6 + half / 5e9) + half * 3 / 10e9 + 200e-9, 1e-9);
  const Json context = Json::parse(read(file("rows.json"))).at("context");
  EXPECT_NE(context.at("predicted_from").get<std::string>().find("laptop"), std::string::npos);
  EXPECT_EQ(rows_of(arguments + "--machine uniform", "all_reduce")[0].at("machine"), "uniform");
  EXPECT_EQ(out_.find("predicting from"), std::string::npos) << out_;
}

}  // namespace
}  // namespace lockstep::bench

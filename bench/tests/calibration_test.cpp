// Calibration: the fit, ./lab bench calibrate from outside, and predictions from its machine.
#include "bench/support/calibration.hpp"

#include <cmath>
#include <string>

#include "bench/programs/bench_program.hpp"
#include "bench/support/links.hpp"
#include "bench/support/quiet.hpp"
#include "common/support/json/row_fields.hpp"

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
    readings.additions.push_back({.bytes = bytes, .seconds = noisy(launch + 3 * bytes / memory)});
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
  EXPECT_TRUE(machine.measured.exchanges.empty()) << "nothing cold was measured: no tables";
  readings.messages.resize(1);
  EXPECT_THROW(fit_machine(readings, {}), Error);
}

/// Readings of a computer whose messages and additions are no lines.
Readings bent_readings() {
  Readings readings;
  for (double bytes = 4; bytes <= 16 << 20; bytes *= 4) {
    const double seconds = bytes <= 4096 ? 1e-6 : 5e-6 + bytes * (bytes > 1e6 ? 1e-9 : 1e-10);
    readings.messages.push_back({.bytes = bytes, .seconds = seconds});
    readings.one_way.push_back({.bytes = bytes, .seconds = seconds / 2});
    readings.additions.push_back({.bytes = bytes, .seconds = 1e-7 + bytes * 2e-11});
    readings.cold_messages.push_back({.bytes = bytes, .seconds = 3 * seconds});
    readings.cold_additions.push_back({.bytes = bytes, .seconds = 1e-7 + bytes * 1e-10});
  }
  for (std::size_t m : {1, 64, 512})
    for (std::size_t side : {16, 256, 1024}) {
      const double rate = m == 1 ? 1e10 : 1e11;
      readings.grid.push_back({.m = m, .n = side, .k = side});
      readings.grid.back().seconds = readings.grid.back().flop() / rate;
    }
  readings.squares.push_back({.m = 512, .n = 512, .k = 512, .seconds = 2.0 * 512 * 512 * 512 / 1e11});
  readings.operations.push_back({.operation = "gelu", .work = 1e6, .seconds = 1e-3});
  for (double bytes : {131072.0, 4e6, 64e6}) readings.footprints.push_back({.bytes = bytes, .seconds = bytes / 1e12});
  readings.cache_bytes = 16e6;
  return readings;
}

std::string bent_file() {
  const Readings readings = bent_readings();
  Calibration fit = fit_machine(readings, {});
  fit.machine.description = "messages that are no line";
  return machine_file(fit, readings, {}, {});
}

TEST(Calibration, WritesTablesThatAreReadBackAndPredictTheirPoints) {
  const Readings readings = bent_readings();
  const Machine machine = parse_machine(bent_file(), "bent.json");
  ASSERT_EQ(machine.measured.exchanges.size(), readings.messages.size());
  EXPECT_EQ(machine.measured.cache_bytes, 16e6);
  EXPECT_LT(std::abs(worst_residual(machine, readings.messages, predicted_message)), 1e-9);
  EXPECT_LT(std::abs(worst_residual(machine, readings.one_way, predicted_one_way)), 1e-9);
  EXPECT_LT(std::abs(worst_residual(machine, readings.cold_messages, predicted_cold_message)), 1e-9);
  EXPECT_LT(std::abs(worst_residual(machine, readings.cold_additions, predicted_cold_addition)), 1e-9);
  ASSERT_EQ(machine.measured.footprints.size(), readings.footprints.size());
  for (std::size_t i = 0; i < readings.footprints.size(); ++i) {
    EXPECT_EQ(machine.measured.footprints[i].bytes, readings.footprints[i].bytes);
    EXPECT_EQ(machine.measured.footprints[i].seconds, readings.footprints[i].seconds);
  }
  EXPECT_LT(std::abs(worst_residual(machine, readings.grid, predicted_product)), 1e-9);
  EXPECT_LT(std::abs(worst_residual(machine, readings.operations, predicted_operation)), 1e-9);
  Machine line = machine;
  line.measured = {};
  EXPECT_GT(std::abs(worst_residual(line, readings.messages, predicted_message)), 0.5) << "no line fits them";
}

TEST(Calibration, PassesThatDisagreeAreKnown) {
  Reading reading;
  reading.set_passes({1e-6, 1.02e-6, 0.99e-6});
  EXPECT_TRUE(reading.agrees());
  EXPECT_EQ(reading.seconds, 1e-6);
  reading.set_passes({0.66e-6, 3.7e-6, 1.2e-6, 2.9e-6});
  EXPECT_FALSE(reading.agrees());
}

TEST(Measure, ShortActsComeOftenBeforeASampleAndLongOnesOnce) {
  EXPECT_EQ(acts_before_sample(0), 4);
  EXPECT_EQ(acts_before_sample(1e-6), 4);
  EXPECT_EQ(acts_before_sample(4e-3), 4) << "an all-reduce of 16 MiB, a fifth slower after one";
  EXPECT_EQ(acts_before_sample(8e-3), 2);
  EXPECT_EQ(acts_before_sample(0.02), 1);
  EXPECT_EQ(acts_before_sample(5), 1);
}

TEST(Probes, DriftIsOfTheSecondHalfAgainstTheFirst) {
  const std::vector<double> steady(20, 1e-6);
  std::vector<double> slower = steady;
  slower[3] = 1;  // one disturbance is none
  EXPECT_EQ(probes_of(slower, steady).drift, 0);
  for (std::size_t i = 10; i < 20; ++i) slower[i] = 1.2e-6;
  EXPECT_NEAR(probes_of(slower, steady).drift, 0.2, 1e-9);
  EXPECT_NEAR(probes_of(steady, slower).drift, 0.2, 1e-9);
  EXPECT_EQ(probes_of({}, steady).exchange, 0) << "a rank alone has no messages";
}

TEST(Calibration, PassesInAnotherStateOfTheLinkAreLeftOut) {
  EXPECT_EQ(passes_of_one_state({13.1, 43.7, 13.0, 12.9, 44.1}), (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(passes_of_one_state({43.7, 13.1, 44.1, 43.9}), (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(passes_of_one_state({13.0, 44.0}), (std::vector<std::size_t>{0})) << "of two halves the faster one";
  EXPECT_EQ(passes_of_one_state({13.0}).size(), 1u);
}

TEST(Probes, TurnsOfAnotherComputerAreLeftOut) {
  const Plan plan{.exchange = 13e-6, .addition = 1e-6};
  const std::vector<double> same(8, 13.2e-6), additions(8, 1.01e-6);
  EXPECT_EQ(turns_that_count(plan, same, additions).size(), 8u);
  std::vector<double> some = same, most = same;
  some[2] = 44e-6;
  std::vector<double> hot = additions;
  hot[5] = 1.18e-6;
  EXPECT_EQ(turns_that_count(plan, some, hot), (std::vector<std::size_t>{0, 1, 3, 4, 6, 7}));
  for (std::size_t turn = 1; turn < 6; ++turn) most[turn] = 44e-6;
  EXPECT_EQ(turns_that_count(plan, most, additions).size(), 8u) << "too few are left: all, and the row is marked";
  EXPECT_EQ(turns_that_count({}, some, hot).size(), 8u) << "nothing is known";
  EXPECT_EQ(turns_that_count(plan, {}, hot).size(), 7u) << "a rank alone";
}

TEST(Probes, SayWhichRowsWereNotQuiet) {
  const MeasuredPrices tables = fit_machine(bent_readings(), {}).machine.measured;
  const double message = line_at(tables.exchanges, Probes::kBytes, 0).at(Probes::kBytes);
  const double addition = line_at(tables.additions, Probes::kBytes, 0).at(Probes::kBytes);
  const auto row_of = [&](Probes probes) {
    Row row;
    set_quiet(row, tables, {.ranks = 1}, probes);
    return row;
  };
  const auto is_quiet = [](const Row& row) { return std::get<bool>(*find(row, "quiet")); };
  const Row quiet = row_of({.exchange = message * 1.04, .addition = addition, .drift = -0.04});
  const Row slower = row_of({.exchange = message * 1.5, .addition = addition, .drift = 0});
  EXPECT_TRUE(is_quiet(quiet));
  EXPECT_FALSE(is_quiet(slower));
  EXPECT_FALSE(is_quiet(row_of({.exchange = message, .addition = addition * 0.9})));
  EXPECT_FALSE(is_quiet(row_of({.exchange = message, .addition = addition, .drift = 0.06})));
  EXPECT_EQ(what_was_not_quiet({quiet}), "");
  const std::string words = what_was_not_quiet({quiet, slower});
  EXPECT_NE(words.find("not quiet in 1 of 2 rows"), words.npos) << words;
  EXPECT_NE(words.find("messages of 64 KiB by up to +50%"), words.npos) << words;
}

TEST(Probes, EmulatedTimesAreTheSameOnAQuietComputer) {
  Row steady, uneven;
  set_quiet(steady, Median{.value = 1e-3, .low = 0.98e-3, .high = 1.04e-3});
  set_quiet(uneven, Median{.value = 1e-3, .low = 0.8e-3, .high = 1.2e-3});
  EXPECT_EQ(what_was_not_quiet({steady}), "");
  const std::string words = what_was_not_quiet({steady, uneven});
  EXPECT_NE(words.find("not quiet in 1 of 2 rows: emulated times"), words.npos) << words;
  EXPECT_NE(words.find("up to 50% wide"), words.npos) << words;
}

TEST(LinkStates, AreMeasuredOnceAndRecognised) {
  RunOptions near{.ranks = 4, .phantom = true};
  near.machine = Machine::uniform(1e-6, 1e-10, 0);
  RunOptions far = near;
  far.machine = Machine::uniform(3e-6, 4e-10, 0);
  MeasuredPrices calibrated = fit_machine(bent_readings(), {}).machine.measured;
  for (auto* table : {&calibrated.exchanges, &calibrated.one_way})
    for (SizePrice& size : *table) size.seconds = size.cold_seconds = near.machine.message_seconds(0, size.bytes);
  LinkStates links(calibrated);
  EXPECT_EQ(links.now(near).exchanges[3].seconds, calibrated.exchanges[3].seconds);
  EXPECT_EQ(links.states(), 1);
  const MeasuredPrices found = links.now(far);
  EXPECT_EQ(links.states(), 2);
  for (std::size_t i = 0; i < found.exchanges.size(); ++i) {
    const double seconds = far.machine.message_seconds(0, found.exchanges[i].bytes);
    EXPECT_NEAR(found.exchanges[i].seconds / seconds, 1, 1e-6) << found.exchanges[i].bytes;
    EXPECT_NEAR(found.exchanges[i].cold_seconds / seconds, 1, 1e-6) << found.exchanges[i].bytes;
    EXPECT_NEAR(found.one_way[i].seconds / seconds, 1, 1e-6) << found.exchanges[i].bytes;
    EXPECT_EQ(found.additions[i].seconds, calibrated.additions[i].seconds);
  }
  EXPECT_EQ(links.now(near).exchanges[3].seconds, calibrated.exchanges[3].seconds);
  EXPECT_EQ(links.now(far).exchanges[3].seconds, found.exchanges[3].seconds);
  EXPECT_EQ(links.states(), 2) << "both are known";
}

TEST(LinkPrices, AreThoseOfMessagesAsLong) {
  const Machine machine = fit_machine(bent_readings(), {}).machine;
  const LinkPrices prices{machine.alpha(0), machine.beta(0), machine.gamma(), machine.launch, machine.measured};
  for (const double bytes : {64.0, 5000.0, 65536.0, 3e6}) {
    const LinkPrices around = prices.at(bytes);
    EXPECT_NEAR((around.alpha + around.beta * bytes) / machine.message_seconds(0, bytes), 1, 1e-9) << bytes;
    const LinkPrices cold = prices.at(bytes, 1, 1);
    EXPECT_NEAR((cold.alpha + cold.beta * bytes) / (around.alpha + around.beta * bytes), 3, 1e-9) << bytes;
    EXPECT_GT(cold.launch + cold.gamma * bytes, around.launch + around.gamma * bytes);
  }
  EXPECT_EQ(LinkPrices({.alpha = 1, .beta = 2}).at(64, 1, 1).beta, 2) << "no tables";
}

TEST_F(BenchProgram, ASimulatedMachineWithTablesIsPredictedByThem) {
  std::ofstream(file("bent.json")) << bent_file();
  const std::string sizes = "--ranks 2 --bytes 16KiB,256KiB,8MiB --algorithm ring,recursive_doubling,rabenseifner ";
  for (const Json& row : rows_of(sizes + "--machine " + file("bent.json"), "all_reduce"))
    EXPECT_NEAR(row.at("predicted_seconds").get<double>() / row.at("seconds").get<double>(), 1, 0.02) << row;
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
    EXPECT_EQ(of_kind("cold message"), 0) << "a simulated link is a line";
    EXPECT_FALSE(document.contains("tables"));
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

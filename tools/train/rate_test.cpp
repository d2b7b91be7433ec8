// Tests what ./lab train says of its speed and its data: bytes and seconds of a step, and ./lab why where they limit
// it.
#include "tools/train/rate.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "common/analysis/why.hpp"
#include "common/backends/sim/host_time.hpp"
#include "common/support/host/host.hpp"
#include "common/support/json/row_fields.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

/// Tokens on a slow disk, in virtual seconds of the reader.
class SlowTokens : public TokenSource {
 public:
  SlowTokens(Rank reader, double seconds_per_byte) : reader_(reader), seconds_per_byte_(seconds_per_byte) {}
  std::size_t size() const override { return 100'000; }
  std::size_t token_bytes() const override { return 2; }
  void read(std::size_t first, std::span<std::int32_t> into) const override {
    pass_host_time(reader_, seconds_per_byte_ * static_cast<double>(into.size() * token_bytes()));
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = static_cast<std::int32_t>((first + i) * 7 % 256);
  }

 private:
  Rank reader_;
  double seconds_per_byte_;
};

struct Loaded {
  Outcome outcome;
  std::vector<StepRecord> records;
  Row row;
};

/// Two ranks, 3 + 3 rows of 16 tokens; rank 1 reads so slowly, rank 0 half as slowly.
Loaded load(double seconds_per_byte) {
  TrainRequest options = small_run();
  options.batch = 6;
  options.ranks = 2;
  TrainPlan plan = make_plan(options, 0);
  plan.run.trace = true;
  TrainLog log(plan, nullptr);
  StopSignals signals(false);
  checkpoint::Disk disk;
  Loaded result;
  result.outcome = run(plan.run, [&](Rank me) {
    TrainPlan mine = plan;
    mine.corpus = Corpus::of_source(std::make_shared<SlowTokens>(me, seconds_per_byte * (1 + me.rank()) / 2), 256);
    return train_rank(me, mine, log, disk, signals);
  });
  result.outcome.check();
  result.records = log.records();
  result.row = log.result_row(result.outcome);
  return result;
}

constexpr double kBytes = 3 * 17 * 2;  // a rank's rows, and the token after each, of two bytes

TEST(TrainData, BytesAndSecondsOfAStepAreInItsRecord) {
  const Loaded slow = load(1e-3);
  for (const StepRecord& record : slow.records) {
    EXPECT_EQ(record.loaded_bytes, kBytes);
    EXPECT_NEAR(record.loading_seconds, kBytes * 0.5e-3, 1e-9) << "rank 0 reads a byte in half a millisecond";
  }
  EXPECT_EQ(number(slow.row, "loaded_bytes"), kBytes);
  EXPECT_NEAR(number(slow.row, "loading_seconds"), kBytes * 0.5e-3, 1e-9);
  for (int rank : {0, 1}) {
    const RegionTotal* data = slow.outcome.ledgers[static_cast<std::size_t>(rank)].region("data");
    ASSERT_TRUE(data);
    EXPECT_EQ(data->bytes, 8 * kBytes) << "eight steps of rank " << rank;
    EXPECT_NEAR(data->seconds, 8 * kBytes * (1 + rank) * 0.5e-3, 1e-9);
  }
}

TEST(TrainData, WhyNamesALoaderThatLimits) {
  const analysis::Why slow = analysis::why(load(1e-3).outcome.trace), fast = analysis::why(load(1e-12).outcome.trace);
  EXPECT_EQ(slow.limit, analysis::Cost::data) << slow.sentence;
  EXPECT_NEAR(slow.use[1].loading, kBytes * 1e-3, 1e-9);
  EXPECT_NE(slow.sentence.find("rank 1 loads data for 102 ms per step"), std::string::npos) << slow.sentence;
  EXPECT_NE(fast.limit, analysis::Cost::data) << fast.sentence;
}

TEST(TrainRate, IsAShareOfTheGpusPeakOrOfTheMeasuredProductAndNotOfBoth) {
  TrainRequest options = small_run();
  const TrainPlan plan = make_plan(options, 0);
  const GptConfig& m = plan.step.model;
  const double h = static_cast<double>(m.d_model), l = static_cast<double>(m.layers), s = 16,
               v = static_cast<double>(m.vocabulary);
  const double a_token = 6 * (12 * l * h * h + v * h) + 12 * l * h * s;  // PaLM: 6N + 12LHQT
  const Rate gpu = rate_of(plan, 0.5, {.peak = 1e12}), cpu = rate_of(plan, 0.5, {.product = 1e10});
  EXPECT_NEAR(gpu.flop_per_second, 7 * s * a_token / 0.5, 1);
  EXPECT_NEAR(gpu.mfu, gpu.flop_per_second / 1e12, 1e-15);
  EXPECT_TRUE(std::isnan(gpu.product_share));
  EXPECT_NEAR(cpu.product_share, cpu.flop_per_second / 1e10, 1e-12);
  EXPECT_TRUE(std::isnan(cpu.mfu));
  EXPECT_NE(rate_line(gpu).find("MFU"), std::string::npos);
  EXPECT_EQ(rate_line(cpu).find("MFU"), std::string::npos) << rate_line(cpu);
  EXPECT_EQ(rate_line(rate_of(plan, 0.5, {})).find('%'), std::string::npos) << "nothing to compare with";
}

class TrainBaseline : public Folder {
 protected:
  ~TrainBaseline() override { unsetenv("LOCKSTEP_MACHINES"); }
  void gpu(const std::string& bus, const std::string& model) const {
    const fs::path folder = folder_ / "proc/driver/nvidia/gpus" / bus;
    fs::create_directories(folder);
    std::ofstream(folder / "information") << "Model: \t\t " << model << "\nIRQ:   \t\t 133\n";
  }
  double peak() const { return baseline_of(plan_, "cuda", false, folder_.string()).peak; }

  TrainPlan plan_ = make_plan(small_run(), 0);  // fp32
};

TEST_F(TrainBaseline, PeakOfTheGpusThatTheDriverNames) {
  EXPECT_TRUE(std::isnan(peak())) << "no driver";
  gpu("0000:01:00.0", "NVIDIA H200");
  EXPECT_EQ(peak(), 67e12);
  gpu("0000:02:00.0", "NVIDIA H200");
  EXPECT_EQ(peak(), 67e12);
  gpu("0000:02:00.0", "NVIDIA H100 PCIe");
  EXPECT_TRUE(std::isnan(peak())) << "two kinds";
  gpu("0000:01:00.0", "NVIDIA H100 PCIe");
  EXPECT_EQ(peak(), 51e12);
  for (const char* other : {"NVIDIA A1000", "NVIDIA GH200 480GB", "NVIDIA H200 NVL"}) {
    gpu("0000:01:00.0", other);
    gpu("0000:02:00.0", other);
    EXPECT_TRUE(std::isnan(peak())) << other << " is another card than the one its name contains";
  }
}

TEST_F(TrainBaseline, OfAProcessorIsTheProductThatWasMeasured) {
  setenv("LOCKSTEP_MACHINES", folder_.c_str(), 1);
  EXPECT_TRUE(std::isnan(baseline_of(plan_, "mpi", false).product)) << "nothing was measured";
  EXPECT_TRUE(std::isnan(baseline_of(plan_, "sim", false).peak)) << "a processor has no MFU";
  const std::string place = machine_file_of_host("", "mpi");
  std::ifstream laptop(LOCKSTEP_SOURCE_DIR "/bench/machines/laptop.json");
  std::string file{std::istreambuf_iterator<char>(laptop), {}};
  std::ofstream(place) << file;
  EXPECT_NEAR(baseline_of(plan_, "mpi", false).product, 0.9 * 96e9, 1) << "without tables: peak and efficiency";
  const std::string memory = "\"memory_bytes\": 2e9";
  file.replace(file.find(memory), memory.size(), memory + R"(, "tables": {
    "exchanges": [{"bytes": 8, "seconds": 1e-6, "cold_seconds": 1e-6}], "one_way": [{"bytes": 8, "seconds": 1e-6, "cold_seconds": 1e-6}],
    "additions": [{"bytes": 8, "seconds": 1e-7, "cold_seconds": 1e-7}],
    "products": [{"m": 16, "nk": 4096, "seconds": 1e-6}, {"m": 16, "nk": 1e6, "seconds": 4e-4}],
    "operations_flop_per_second": {}, "cache_bytes": 1e6})");
  std::ofstream(place) << file;
  EXPECT_NEAR(baseline_of(plan_, "mpi", false).product, 131.072e9, 1) << "2 · 16 · 4,096 FLOP in 1 µs, the fastest";
  EXPECT_TRUE(std::isnan(baseline_of(plan_, "cuda", false, folder_.string()).product)) << "of processors only";
  plan_.run.machine.peak_flop_per_second.fill(1e11);
  EXPECT_TRUE(std::isnan(baseline_of(plan_, "sim", true).peak)) << "a machine file of processors: the same";
  plan_.run.machine.peak_flop_per_second.fill(312e12);
  EXPECT_EQ(baseline_of(plan_, "sim", true).peak, 312e12);
}

TEST_F(TrainBaseline, RoofsAreOfTheMachineThatTheTimesAreOf) {
  setenv("LOCKSTEP_MACHINES", folder_.c_str(), 1);
  plan_.run.machine = read_machine(LOCKSTEP_SOURCE_DIR "/bench/machines/dgx-a100.json");
  const Roofs modelled = roofs_of(plan_, "sim", true), unknown = roofs_of(plan_, "mpi", false);
  EXPECT_EQ(modelled.flop_per_second, 19.5e12) << "fp32";
  EXPECT_EQ(modelled.bytes_per_second, 2e12);
  EXPECT_TRUE(std::isnan(unknown.flop_per_second) && std::isnan(unknown.bytes_per_second)) << "nothing was measured";
  gpu("0000:01:00.0", "NVIDIA H200");
  EXPECT_EQ(roofs_of(plan_, "nccl", false, folder_.string()).flop_per_second, 67e12);
  EXPECT_EQ(roofs_of(plan_, "nccl", false, folder_.string()).bytes_per_second, 4.8e12);
  fs::copy_file(LOCKSTEP_SOURCE_DIR "/bench/machines/laptop.json", machine_file_of_host("", "mpi"));
  const Machine laptop = read_machine(LOCKSTEP_SOURCE_DIR "/bench/machines/laptop.json");
  EXPECT_NEAR(roofs_of(plan_, "mpi", false).flop_per_second, 0.9 * 96e9, 1);
  EXPECT_EQ(roofs_of(plan_, "mpi", false).bytes_per_second, laptop.memory_bytes_per_second);
}

}  // namespace
}  // namespace lockstep::train

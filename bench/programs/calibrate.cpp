// Measures messages, copies and matrix products of this computer and writes a machine file that every benchmark then
// predicts from; it times no collective and no training step.
//
//   ./lab calibrate
//   ./lab calibrate --backend cuda --output outputs/machines/gpu.json
//
// In the simulator it reads back the constants of the machine that is simulated.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "bench/support/bench.hpp"
#include "bench/support/calibration.hpp"
#include "bench/support/measure.hpp"
#include "bench/support/versions.hpp"
#include "common/arithmetic.hpp"
#include "common/support/host/host.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {
namespace {

constexpr int kSamples = 15;
constexpr int kRepeats = 4;        // acts a sample
constexpr double kLongFlop = 1e8;  // such a product fills a sample alone
constexpr std::size_t kMessages[] = {1, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576};  // elements
constexpr std::size_t kCopies[] = {64, 1024, 8192, 65536, 262144, 1048576, 4194304};

bool simulated() { return std::string_view(backend_name()) == "sim"; }
bool on_gpu() { return std::string_view(backend_name()) == "cuda" || std::string_view(backend_name()) == "nccl"; }

/// The points to be measured, without their seconds.
Readings plan() {
  Readings plan;
  for (std::size_t elements : kMessages) plan.messages.push_back({.bytes = 4.0 * static_cast<double>(elements)});
  plan.one_way = plan.messages;
  for (std::size_t elements : kCopies) plan.copies.push_back({.bytes = 4.0 * static_cast<double>(elements)});
  const std::size_t largest = on_gpu() ? 8192 : 1024;
  for (std::size_t n = 16; n <= largest; n *= 2) plan.squares.push_back({.m = n, .n = n, .k = n});
  for (DType dtype : {DType::bf16, DType::f16})
    plan.halves.push_back({.m = largest, .n = largest, .k = largest, .dtype = dtype});
  plan.others = {{.m = 64, .n = 1024, .k = 256},
                 {.m = 256, .n = 64, .k = 256},
                 {.m = 512, .n = 2048, .k = 128},
                 {.m = 32, .n = 1024, .k = 1024},
                 {.m = 1024, .n = 256, .k = 64}};
  return plan;
}

/// What every rank sends and receives before a point, so that all begin it together.
struct Tokens {
  Slice sent, received;
};

/// Median seconds of an act on this rank. In virtual time one says all.
double median_seconds(Rank me, const Tokens& tokens, int repeats, const std::function<void()>& act) {
  std::vector<double> samples;
  barrier(me, tokens.sent, tokens.received);
  act();
  for (int sample = 0; sample < (simulated() ? 1 : kSamples); ++sample) {
    const double begin = me.now();
    for (int repeat = 0; repeat < repeats; ++repeat) act();
    samples.push_back((me.now() - begin) / repeats);
  }
  return median(samples).value;
}

Slice filled(Rank me, std::size_t elements, DType dtype = DType::f32) {
  Slice slice = me.allocate(elements, dtype, Category::buffer);
  fill(me, slice, 0);
  return slice;
}

double time_product(Rank me, const Tokens& tokens, const Reading& shape) {
  const Slice a = filled(me, shape.m * shape.k, shape.dtype), b = filled(me, shape.k * shape.n, shape.dtype),
              c = filled(me, shape.m * shape.n, shape.dtype);
  return median_seconds(me, tokens, shape.flop() < kLongFlop ? kRepeats : 1, [&] {
    matmul(me, matrix(c, shape.m, shape.n), matrix(a, shape.m, shape.k), matrix(b, shape.k, shape.n));
  });
}

/// Every point in turn, on all ranks at once; messages between the first and the last rank, while the others wait.
Values time_all(Rank me, const Readings& plan) {
  Values seconds;
  const Slice here = filled(me, kCopies[std::size(kCopies) - 1]), there = filled(me, here.size());
  const Tokens tokens{filled(me, 2), filled(me, 2)};
  const int last = me.size() - 1, peer = last - me.rank();
  const bool talks = me.rank() == 0 || me.rank() == last;
  for (const Reading& message : plan.messages) {
    const auto elements = static_cast<std::size_t>(message.bytes) / 4;
    // What came last goes next, as in collectives: a slice that nobody wrote to meanwhile is still in its reader's
    // cache.
    const auto act = [&, from = here.cut(0, elements), to = there.cut(0, elements)]() mutable {
      if (talks) me.exchange({send(peer, from), receive(peer, to)});
      std::swap(from, to);
    };
    seconds.push_back(median_seconds(me, tokens, kRepeats, act));
  }
  for (const Reading& message : plan.one_way) {
    const Slice part = here.cut(0, static_cast<std::size_t>(message.bytes) / 4);
    const auto there_and_back = [&] {
      if (me.rank() == 0) me.exchange({send(peer, part)});
      if (talks) me.exchange({receive(peer, part)});
      if (me.rank() == last) me.exchange({send(peer, part)});
    };
    seconds.push_back(median_seconds(me, tokens, kRepeats, there_and_back) / 2);
  }
  for (const Reading& reading : plan.copies) {
    const auto elements = static_cast<std::size_t>(reading.bytes) / 4;
    seconds.push_back(
        median_seconds(me, tokens, kRepeats, [&] { copy(me, there.cut(0, elements), here.cut(0, elements)); }));
  }
  for (const auto* products : {&plan.squares, &plan.halves, &plan.others})
    for (const Reading& shape : *products) seconds.push_back(time_product(me, tokens, shape));
  return seconds;
}

/// What no measurement says: of the machine that is simulated, of the GPU, or of this host.
Unmeasured unmeasured(const RunOptions& options) {
  if (simulated())
    return {.memory_bytes = std::min(options.machine.memory_bytes, 1e16),  // a file holds no infinity
            .memory_source = "of the machine that is simulated",
            .eager_bytes = options.machine.eager_bytes,
            .eager_source = "of the machine that is simulated"};
  if (!on_gpu()) return unmeasured_of_host(read_host().memory_bytes, options.ranks);
  const bool shared = std::string_view(backend_name()) == "cuda";
  return {.memory_bytes = gpu_memory_bytes() / (shared ? options.ranks : 1),
          .memory_source = shared ? "read from the driver: the GPU's, shared equally by the ranks"
                                  : "read from the driver: that of one GPU, which each rank has",
          .eager_bytes = 4096,
          .eager_source = "assumed: nothing on GPUs is predicted from it"};
}

/// The slowest rank counts.
Readings measured(const RunOptions& options) {
  Readings readings = plan();
  const Outcome outcome = run(options, [&](Rank me) { return time_all(me, readings); });
  outcome.check();
  std::size_t i = 0;
  for (auto* points :
       {&readings.messages, &readings.one_way, &readings.copies, &readings.squares, &readings.halves, &readings.others})
    for (Reading& reading : *points) {
      for (const Values& of_rank : outcome.values) reading.seconds = std::max(reading.seconds, of_rank[i]);
      ++i;
    }
  return readings;
}

std::string name_of(const Reading& reading) {
  if (reading.bytes > 0) return format_bytes(reading.bytes);
  return fmt::format("{} × {} × {} {}", reading.m, reading.k, reading.n, to_string(reading.dtype));
}

/// Prints the points beside what the machine predicts for them, and returns them as rows.
std::vector<Row> compare(const Machine& machine, const Readings& readings) {
  std::vector<Row> rows;
  const auto add = [&](const char* kind, const std::vector<Reading>& points, auto predict) {
    for (const Reading& point : points) {
      const double predicted = predict(machine, point), residual = predicted / point.seconds - 1;
      Row row;
      row.set("backend", backend_name()).set("kind", kind).set("point", name_of(point));
      row.set("seconds", point.seconds).set("predicted_seconds", predicted).set("residual", residual);
      rows.push_back(row);
      if (is_judge())
        fmt::print("{:<14} {:<24} {:>10} {:>10} {:>+7.1f} %\n", kind, name_of(point), format_seconds(point.seconds),
                   format_seconds(predicted), std::round(1000 * residual) / 10 + 0.0);
    }
  };
  if (is_judge()) fmt::print("{:<14} {:<24} {:>10} {:>10} {:>9}\n", "", "", "measured", "by file", "residual");
  add("message", readings.messages, predicted_message);
  add("one way", readings.one_way, predicted_message);
  add("copy", readings.copies, predicted_copy);
  add("product", readings.squares, predicted_product);
  add("product", readings.halves, predicted_product);
  add("other product", readings.others, predicted_product);
  if (is_judge())
    fmt::print("α = {}, 1/β = {}, memory {}, launch {}, {:.1f} GFLOP/s in fp32\n", format_seconds(machine.alpha(0)),
               format_bandwidth(1 / machine.beta(0)), format_bandwidth(machine.memory_bytes_per_second),
               format_seconds(machine.launch), machine.peak_flop_per_second[0] / 1e9);
  return rows;
}

void calibrate(Bench& bench, std::string output) {
  if (bench.ranks() == std::vector<int>{1} || bench.ranks().size() != 1)
    throw Error(Verdict::usage, "calibrate wants one number of ranks, at least 2: a message needs two");
  if (output.empty()) output = calibrated_file(backend_name());
  // On every process, though one writes: a process that refuses alone would leave the others waiting for it.
  std::error_code none;  // a folder that cannot be made cannot be written to either, which the next line says
  std::filesystem::create_directories(std::filesystem::path(output).parent_path(), none);
  check_writable(output);
  RunOptions options = bench.run_options(bench.ranks().front());
  options.phantom = simulated();  // prices need no memory
  const Readings readings = measured(options);
  Calibration fit = fit_machine(readings, unmeasured(options));
  fit.machine.name = std::filesystem::path(output).stem().string();
  Context context = bench.context();
  fit.machine.description = fmt::format("{} with {} ranks, measured by ./lab calibrate on {}",
                                        simulated() ? "the simulated machine " + options.machine.name : context.machine,
                                        options.ranks, context.date);
  const std::vector<Row> rows = compare(fit.machine, readings);
  for (const Row& row : rows) bench.report(row);
  bench.about().set("machine_file", output);
  if (is_judge()) {
    write_atomically(output, machine_file(fit, readings, context, rows));
    (void)read_machine(output);  // what is written can be read
    const bool usual = output == calibrated_file(backend_name());
    fmt::print("wrote {}; {}\n", output,
               usual ? fmt::format("every benchmark on this host predicts --backend {} from it", backend_name())
                     : "--machine with this file predicts from it");
  }
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  std::string output;
  return bench::bench_main(
      "calibrate", "A machine file from messages, copies and matrix products.", argc, argv,
      [&](CommandLine& line) {
        line.add("--output", output, "the machine file; default outputs/machines/HOST.json, on GPUs HOST-cuda.json …");
      },
      [&](bench::Bench& bench) { bench::calibrate(bench, output); });
}

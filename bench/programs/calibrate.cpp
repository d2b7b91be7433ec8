// Measures messages, additions, matrix products and operations of layers on this computer and writes a machine file,
// from which every benchmark then predicts. It times no collective and no training step.
//
//   ./lab calibrate
//   ./lab calibrate --backend cuda --output outputs/machines/gpu.json
//
// In the simulator it recovers the constants of the simulated machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bench/programs/calibrate_probes.hpp"
#include "bench/support/bench.hpp"
#include "bench/support/calibration.hpp"
#include "bench/support/versions.hpp"
#include "common/support/host/host.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {
namespace {

constexpr int kMostPasses = 9;

/// Values that are not measured: those of the simulated machine, of the GPU, or of this host.
Unmeasured unmeasured(const RunOptions& options) {
  if (time_is_virtual())
    return {.memory_bytes = std::min(options.machine.memory_bytes, 1e16),  // a file cannot contain infinity
            .memory_source = "of the machine that is simulated",
            .eager_bytes = options.machine.eager_bytes,
            .eager_source = "of the machine that is simulated"};
  if (!on_gpu()) return unmeasured_of_host(read_host().memory_bytes, options.ranks);
  const bool shared = shares_memory();
  return {.memory_bytes = gpu_memory_bytes() / (shared ? options.ranks : 1),
          .memory_source = shared ? "read from the driver: the GPU's, shared equally by the ranks"
                                  : "read from the driver: that of one GPU, which each rank has",
          .eager_bytes = 4096,
          .eager_source = "assumed: no prediction for GPUs uses it"};
}

std::string name_of(const Reading& reading) {
  if (reading.bytes > 0) return format_bytes(reading.bytes);
  if (reading.work > 0) return reading.operation;
  return fmt::format("{} × {} × {} {}", reading.m, reading.k, reading.n, to_string(reading.dtype));
}

/// Reports the points whose passes differ: predictions from them are no better than they are.
void say_who_disagrees(const Readings& readings) {
  if (!is_judge()) return;
  int count = 0;
  for (const auto& [kind, points] : readings.by_kind())
    for (const Reading& point : *points) {
      if (point.agrees()) continue;
      if (++count == 1)
        fmt::print("{} passes do not agree within {:.0f}%; something else was running, or the cores' clock changed:\n",
                   readings.passes, 100 * Reading::kAgreement);
      if (count <= 12) fmt::print("  {} {}: ± {:.0f}%\n", kind, name_of(point), 100 * point.spread);
    }
  if (count > 12) fmt::print("  and {} more\n", count - 12);
  if (count > 0) fmt::print("calibrate again when the computer is quiet\n");
}

/// Prints measured and predicted times of the points, and returns them as rows.
std::vector<Row> compare(const Machine& machine, const Readings& readings) {
  std::vector<Row> rows;
  const auto add = [&](const char* kind, const std::vector<Reading>& points, auto predict) {
    for (const Reading& point : points) {
      const double predicted = predict(machine, point), residual = predicted / point.seconds - 1;
      Row row;
      row.set("backend", backend_name()).set("kind", kind).set("point", name_of(point));
      row.set("seconds", point.seconds).set("predicted_seconds", predicted).set("residual", residual);
      row.set("spread", point.spread);
      rows.push_back(row);
      say("{:<14} {:<24} {:>10} {:>10} {:>+8.1f}%\n", kind, name_of(point), format_seconds(point.seconds),
          format_seconds(predicted), std::round(1000 * residual) / 10 + 0.0);
    }
  };
  say("{:<14} {:<24} {:>10} {:>10} {:>9}\n", "", "", "measured", "by file", "residual");
  add("message", readings.messages, predicted_message);
  add("one way", readings.one_way, predicted_one_way);
  add("addition", readings.additions, predicted_addition);
  add("copy", readings.copies, predicted_copy);
  add("cold message", readings.cold_messages, predicted_cold_message);
  add("cold addition", readings.cold_additions, predicted_cold_addition);
  add("footprint", readings.footprints, predicted_footprint);
  add("product", readings.squares, predicted_product);
  add("product", readings.halves, predicted_product);
  add("other product", readings.others, predicted_product);
  add("grid product", readings.grid, predicted_product);
  add("operation", readings.operations, predicted_operation);
  say("α = {}, 1/β = {}, memory {}, launch {}, {:.1f} GFLOP/s in fp32\n", format_seconds(machine.alpha(0)),
      format_bandwidth(1 / machine.beta(0)), format_bandwidth(machine.memory_bytes_per_second),
      format_seconds(machine.launch), machine.peak_flop_per_second[0] / 1e9);
  say_who_disagrees(readings);
  return rows;
}

std::string name_of_gpu() {
  for (const auto& [what, version] : library_versions())
    if (what == "gpu") return version;
  return "a GPU";
}

void calibrate(Bench& bench, std::string output) {
  if (bench.ranks() == std::vector<int>{1} || bench.ranks().size() != 1)
    throw Error(Verdict::usage,
                "calibrate needs a single number of ranks, and at least 2, because a message needs two");
  if (output.empty()) output = calibrated_file(backend_name());
  // On every process, although only one writes: if one process rejected the path alone, the others would wait for it.
  std::error_code none;  // ignored: if the folder cannot be made, the next line reports that it cannot be written to
  std::filesystem::create_directories(std::filesystem::path(output).parent_path(), none);
  check_writable(output);
  RunOptions options = bench.run_options(bench.ranks().front());
  options.phantom = time_is_virtual();  // prices need no memory
  const Readings readings = measured_readings(options, kMostPasses);
  Calibration fit = fit_machine(readings, unmeasured(options));
  fit.machine.name = std::filesystem::path(output).stem().string();
  Context context = bench.context();
  fit.machine.description = fmt::format("{} with {} ranks, measured by ./lab calibrate on {}",
                                        time_is_virtual() ? "the simulated machine " + options.machine.name
                                        : on_gpu()        ? name_of_gpu()
                                                          : context.machine,
                                        options.ranks, context.date);
  const std::vector<Row> rows = compare(fit.machine, readings);
  for (const Row& row : rows) bench.report(row);
  bench.about().set("machine_file", output);
  if (is_judge()) {
    write_atomically(output, machine_file(fit, readings, context, rows));
    (void)read_machine(output);  // checks that the file can be read
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
      "calibrate", "Measures messages, copies and matrix products, and writes a machine file.", argc, argv,
      [&](CommandLine& line) {
        line.add("--output", output, "the machine file; default outputs/machines/HOST.json, on GPUs HOST-cuda.json …");
      },
      [&](bench::Bench& bench) { bench::calibrate(bench, output); });
}

#include "bench/support/calibration.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "common/error.hpp"
#include "common/support/json/escape.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::bench {
namespace {

constexpr double kSmallest = 1e-15;  // noise must not make a price negative or nothing

Line line_through(const std::vector<Reading>& readings, const char* what) {
  if (readings.size() < 2) throw Error(Verdict::usage, fmt::format("two {} at least, for a line through them", what));
  std::vector<double> bytes, seconds, weights;
  for (const Reading& reading : readings) {
    bytes.push_back(reading.bytes);
    seconds.push_back(std::max(reading.seconds, 1e-12));
    weights.push_back(1 / (seconds.back() * seconds.back()));
  }
  return fit_line(bytes, seconds, weights);
}

/// Rates that rise and fall are made such that a larger product never takes less time, as the file wants it.
void fit_products(Machine& machine, const Readings& readings) {
  if (readings.squares.empty()) throw Error(Verdict::usage, "one matrix product at least, for the peak");
  std::vector<Reading> squares = readings.squares;
  std::sort(squares.begin(), squares.end(), [](const Reading& a, const Reading& b) { return a.flop() < b.flop(); });
  double longest = 0, peak = 0;
  for (Reading& square : squares) {
    // Less than launch says, which is of copies: a tenth of what was measured is left.
    longest = square.seconds = std::max({square.seconds - machine.launch, square.seconds / 10, longest});
    peak = std::max(peak, square.flop() / square.seconds);
  }
  machine.peak_flop_per_second.fill(peak);
  for (const Reading& square : squares)
    machine.efficiency.push_back({square.flop(), square.flop() / square.seconds / peak});
  for (const Reading& half : readings.halves) {
    const double seconds = std::max(half.seconds - machine.launch, half.seconds / 10);
    machine.peak_flop_per_second[static_cast<std::size_t>(half.dtype)] =
        half.flop() / seconds / machine.matmul_efficiency(half.flop());
  }
}

std::string per_cent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::string sizes_of(const std::vector<Reading>& readings) {
  return fmt::format("{} sizes from {:.0f} to {:.0f} bytes", readings.size(), readings.front().bytes,
                     readings.back().bytes);
}

/// For each number of the file where it comes from.
std::vector<std::pair<std::string, std::string>> sources(const Calibration& fit, const Readings& readings) {
  const Machine& machine = fit.machine;
  const std::string messages =
      fmt::format("measured: line through messages between two ranks, both ways at once, {}; worst residual {}",
                  sizes_of(readings.messages), per_cent(worst_residual(machine, readings.messages, predicted_message)));
  const std::string copies =
      fmt::format("measured: line through copies on all ranks at once, {}; worst residual {}",
                  sizes_of(readings.copies), per_cent(worst_residual(machine, readings.copies, predicted_copy)));
  const std::string products =
      fmt::format("measured: products of square matrices of {} to {} rows; worst residual {}, of {} other shapes {}",
                  readings.squares.front().m, readings.squares.back().m,
                  per_cent(worst_residual(machine, readings.squares, predicted_product)), readings.others.size(),
                  per_cent(readings.others.empty() ? 0 : worst_residual(machine, readings.others, predicted_product)));
  const auto with_error = [](const std::string& text, double error) {
    return fmt::format("{}; standard error {:.2g}", text, error);
  };
  return {{"levels.link.ranks", "assumed: what joins two ranks joins all"},
          {"levels.link.latency_seconds", with_error(messages, fit.latency_error)},
          {"levels.link.bytes_per_second",
           with_error(messages, fit.seconds_per_byte_error * machine.levels[0].bytes_per_second *
                                    machine.levels[0].bytes_per_second)},
          {"peak_flop_per_second", products + "; int32 and int8 are assumed to be as fast as fp32"},
          {"matmul_efficiency", products},
          {"memory_bytes", fit.rest.memory_source},
          {"memory_bytes_per_second",
           with_error(copies, 2 * fit.copy_seconds_per_byte_error * std::pow(machine.memory_bytes_per_second / 2, 2))},
          {"launch_seconds", with_error(copies, fit.launch_error)},
          {"eager_bytes", fit.rest.eager_source}};
}

}  // namespace

Unmeasured unmeasured_of_host(double memory_bytes, int ranks) {
  if (memory_bytes <= 0) return {.memory_source = "assumed: the operating system does not say"};
  return {.memory_bytes = memory_bytes / ranks,
          .memory_source = "read from the operating system: this host's, shared equally by the ranks"};
}

Calibration fit_machine(const Readings& readings, const Unmeasured& rest) {
  const Line messages = line_through(readings.messages, "messages"), copies = line_through(readings.copies, "copies");
  Calibration fit{.latency_error = messages.intercept_error,
                  .seconds_per_byte_error = messages.slope_error,
                  .launch_error = copies.intercept_error,
                  .copy_seconds_per_byte_error = copies.slope_error,
                  .rest = rest};
  Machine& machine = fit.machine;
  machine.levels = {{.name = "link",
                     .ranks = 0,
                     .latency = std::max(messages.intercept, 0.0),
                     .bytes_per_second = 1 / std::max(messages.slope, kSmallest)}};
  machine.memory_bytes_per_second = 2 / std::max(copies.slope, kSmallest);
  machine.launch = std::max(copies.intercept, 0.0);
  machine.eager_bytes = rest.eager_bytes;
  machine.memory_bytes = rest.memory_bytes;
  fit_products(machine, readings);
  return fit;
}

double predicted_message(const Machine& machine, const Reading& reading) {
  return machine.alpha(0) + reading.bytes * machine.beta(0);
}
double predicted_copy(const Machine& machine, const Reading& reading) {
  return machine.seconds({.bytes = 2 * reading.bytes});
}
double predicted_product(const Machine& machine, const Reading& reading) {
  const double elements = static_cast<double>(reading.m * reading.k + reading.k * reading.n + reading.m * reading.n);
  return machine.seconds({.flop = reading.flop(),
                          .bytes = elements * static_cast<double>(bytes_of(reading.dtype)),
                          .dtype = reading.dtype,
                          .matmul = true});
}

double worst_residual(const Machine& machine, const std::vector<Reading>& readings,
                      double (*predict)(const Machine&, const Reading&)) {
  double worst = 0;
  for (const Reading& reading : readings) {
    const double residual = predict(machine, reading) / reading.seconds - 1;
    if (std::abs(residual) > std::abs(worst)) worst = residual;
  }
  return worst;
}

std::string machine_file(const Calibration& calibration, const Readings& readings, const Context& context,
                         const std::vector<Row>& measured) {
  const Machine& machine = calibration.machine;
  const LinkLevel& link = machine.levels.at(0);
  std::string peaks, curve, notes;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i8})
    peaks += fmt::format("{}\"{}\": {}", peaks.empty() ? "" : ", ", to_string(dtype),
                         machine.peak_flop_per_second[static_cast<std::size_t>(dtype)]);
  for (const EfficiencyPoint& point : machine.efficiency)
    curve +=
        fmt::format("{}\n    {{\"flop\": {}, \"fraction\": {}}}", curve.empty() ? "" : ",", point.flop, point.fraction);
  for (const auto& [field, source] : sources(calibration, readings))
    notes += fmt::format("{}\n    {}: {}", notes.empty() ? "" : ",", quoted(field), quoted(source));
  return fmt::format(
      "{{\n  \"name\": {},\n  \"description\": {},\n"
      "  \"levels\": [\n    {{\"name\": \"link\", \"ranks\": {}, \"latency_seconds\": {}, \"bytes_per_second\": {}, "
      "\"shared\": false}}\n  ],\n"
      "  \"peak_flop_per_second\": {{{}}},\n  \"matmul_efficiency\": [{}\n  ],\n"
      "  \"memory_bytes\": {},\n  \"memory_bytes_per_second\": {},\n  \"launch_seconds\": {},\n  \"eager_bytes\": {},\n"
      "  \"sources\": {{{}\n  }},\n  \"measured\": {}}}\n",
      quoted(machine.name), quoted(machine.description), link.ranks, link.latency, link.bytes_per_second, peaks, curve,
      machine.memory_bytes, machine.memory_bytes_per_second, machine.launch, machine.eager_bytes, notes,
      results_json(context, measured));
}

std::string calibrated_file(const std::string& backend) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) name = {"host"};
  std::string host = name.data();
  host.erase(std::min(host.find('.'), host.size()));
  for (char& letter : host)
    if (!std::isalnum(static_cast<unsigned char>(letter)) && letter != '-' && letter != '_') letter = '_';
  const char* folder = std::getenv("LOCKSTEP_MACHINES");
  return fmt::format("{}/{}{}.json", folder ? folder : LOCKSTEP_SOURCE_DIR "/outputs/machines",
                     host.empty() ? "host" : host, backend == "mpi" ? "" : "-" + backend);
}

}  // namespace lockstep::bench

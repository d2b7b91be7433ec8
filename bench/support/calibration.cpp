#include "bench/support/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/error.hpp"
#include "common/support/host/host.hpp"
#include "common/support/json/escape.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::bench {
namespace {

constexpr double kSmallest = 1e-15;  // noise must not make a price negative or zero

Line line_through(const std::vector<Reading>& readings, double longest, const char* what) {
  if (readings.size() < 2) throw Error(Verdict::usage, fmt::format("a line needs at least two {}", what));
  std::vector<double> bytes, seconds, weights;
  for (const Reading& reading : readings) {
    if (reading.bytes > longest) continue;
    bytes.push_back(reading.bytes);
    seconds.push_back(std::max(reading.seconds, 1e-12));
    weights.push_back(1 / (seconds.back() * seconds.back()));
  }
  return fit_line(bytes, seconds, weights);
}

/// Fits the efficiency curve. Adjusts rates such that a larger product never takes less time, as the file requires.
void fit_products(Machine& machine, const Readings& readings) {
  if (readings.squares.empty()) throw Error(Verdict::usage, "the peak needs at least one matrix product");
  std::vector<Reading> squares = readings.squares;
  std::sort(squares.begin(), squares.end(), [](const Reading& a, const Reading& b) { return a.flop() < b.flop(); });
  double longest = 0, peak = 0;
  for (Reading& square : squares) {
    // Subtracts launch, which was fitted to additions, but leaves at least a tenth of the measured time.
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

std::vector<SizePrice> table_of(const std::vector<Reading>& warm, const std::vector<Reading>& cold) {
  std::vector<SizePrice> table;
  for (std::size_t i = 0; i < warm.size(); ++i) table.push_back({warm[i].bytes, warm[i].seconds, cold[i].seconds});
  return table;
}

MeasuredPrices tables_of(const Readings& readings, double launch) {
  MeasuredPrices tables{.exchanges = table_of(readings.messages, readings.cold_messages),
                        .one_way = table_of(readings.one_way, readings.one_way),
                        .additions = table_of(readings.additions, readings.cold_additions),
                        .products = {},
                        .operations = {},
                        .cache_bytes = readings.cache_bytes};
  for (const Reading& reading : readings.footprints) tables.footprints.push_back({reading.bytes, reading.seconds});
  for (const Reading& shape : readings.grid)
    tables.products.push_back(
        {static_cast<double>(shape.m), static_cast<double>(shape.n) * static_cast<double>(shape.k), shape.seconds});
  for (const Reading& reading : readings.operations)  // launch is priced separately
    tables.operations[reading.operation] = reading.work / std::max(reading.seconds - launch, reading.seconds / 10);
  return tables;
}

std::string per_cent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

std::string sizes_of(const std::vector<Reading>& readings) {
  return fmt::format("{} sizes from {:.0f} to {:.0f} bytes", readings.size(), readings.front().bytes,
                     readings.back().bytes);
}

/// Returns the origin of each number in the file.
std::vector<std::pair<std::string, std::string>> sources(const Calibration& fit, const Readings& readings) {
  const Machine& machine = fit.machine;
  Machine line = machine;  // the fitted lines, without the tables
  line.measured = {};
  const std::string messages =
      fmt::format("measured: line through messages between two ranks, both ways at once, {}; worst residual {}",
                  sizes_of(readings.messages), per_cent(worst_residual(line, readings.messages, predicted_message)));
  const std::string additions =
      fmt::format("measured: line through additions on all ranks at once, {}; worst residual {}, of copies {}",
                  sizes_of(readings.additions), per_cent(worst_residual(line, readings.additions, predicted_addition)),
                  per_cent(worst_residual(line, readings.copies, predicted_copy)));
  const std::string products =
      fmt::format("measured: products of square matrices of {} to {} rows; worst residual {}, of {} other shapes {}",
                  readings.squares.front().m, readings.squares.back().m,
                  per_cent(worst_residual(line, readings.squares, predicted_product)), readings.others.size(),
                  per_cent(readings.others.empty() ? 0 : worst_residual(line, readings.others, predicted_product)));
  const auto with_error = [](const std::string& text, double error) {
    return fmt::format("{}; standard error {:.2g}", text, error);
  };
  return {{"levels.link.ranks", "assumed: all ranks are joined as two are"},
          {"levels.link.latency_seconds", with_error(messages, fit.latency_error)},
          {"levels.link.bytes_per_second",
           with_error(messages, fit.seconds_per_byte_error * machine.levels[0].bytes_per_second *
                                    machine.levels[0].bytes_per_second)},
          {"peak_flop_per_second", products + "; int32 and int8 are assumed to be as fast as fp32"},
          {"matmul_efficiency", products},
          {"memory_bytes", fit.rest.memory_source},
          {"memory_bytes_per_second",
           with_error(additions, 3 * fit.gamma_error * std::pow(machine.memory_bytes_per_second / 3, 2))},
          {"launch_seconds", with_error(additions, fit.launch_error)},
          {"eager_bytes", fit.rest.eager_source}};
}

}  // namespace

Unmeasured unmeasured_of_host(double memory_bytes, int ranks) {
  if (memory_bytes <= 0) return {.memory_source = "assumed: the operating system does not say"};
  return {.memory_bytes = memory_bytes / ranks,
          .memory_source = "read from the operating system: this host's, shared equally by the ranks"};
}

Calibration fit_machine(const Readings& readings, const Unmeasured& rest) {
  const Line messages = line_through(readings.messages, readings.longest, "messages"),
             additions = line_through(readings.additions, readings.longest, "additions");
  Calibration fit{.latency_error = messages.intercept_error,
                  .seconds_per_byte_error = messages.slope_error,
                  .launch_error = additions.intercept_error,
                  .gamma_error = additions.slope_error,
                  .rest = rest};
  Machine& machine = fit.machine;
  machine.levels = {{.name = "link",
                     .ranks = 0,
                     .latency = std::max(messages.intercept, 0.0),
                     .bytes_per_second = 1 / std::max(messages.slope, kSmallest)}};
  machine.memory_bytes_per_second = 3 / std::max(additions.slope, kSmallest);
  machine.launch = std::max(additions.intercept, 0.0);
  machine.eager_bytes = rest.eager_bytes;
  machine.memory_bytes = rest.memory_bytes;
  fit_products(machine, readings);
  if (!readings.cold_messages.empty()) machine.measured = tables_of(readings, machine.launch);
  return fit;
}

void Reading::set_passes(const std::vector<double>& passes) {
  seconds = median(passes).value;
  std::vector<double> distances;
  for (const double of_pass : passes) distances.push_back(std::abs(of_pass - seconds));
  spread = median(distances).value / seconds;
}

std::vector<std::size_t> passes_of_one_state(const std::vector<double>& seconds) {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> same;
  for (std::size_t pass = 0; pass < seconds.size(); ++pass)
    if (std::abs(seconds[pass] / sorted[(sorted.size() - 1) / 2] - 1) <= 0.1) same.push_back(pass);
  return same;
}

std::vector<std::pair<const char*, const std::vector<Reading>*>> Readings::by_kind() const {
  return {{"message", &messages},
          {"one way", &one_way},
          {"addition", &additions},
          {"copy", &copies},
          {"cold message", &cold_messages},
          {"cold addition", &cold_additions},
          {"footprint", &footprints},
          {"product", &squares},
          {"product", &halves},
          {"other product", &others},
          {"grid product", &grid},
          {"operation", &operations}};
}

namespace {
double from_table(const std::vector<SizePrice>& table, const Reading& reading, double cold_share, double otherwise) {
  return table.empty() ? otherwise : line_at(table, reading.bytes, cold_share).at(reading.bytes);
}
}  // namespace

double predicted_message(const Machine& machine, const Reading& reading) {
  return machine.message_seconds(0, reading.bytes);
}
double predicted_one_way(const Machine& machine, const Reading& reading) {
  return from_table(machine.measured.one_way, reading, 0, predicted_message(machine, reading));
}
double predicted_cold_message(const Machine& machine, const Reading& reading) {
  return from_table(machine.measured.exchanges, reading, 1, predicted_message(machine, reading));
}
double predicted_addition(const Machine& machine, const Reading& reading) {
  return from_table(machine.measured.additions, reading, 0, machine.seconds({.bytes = 3 * reading.bytes}));
}
double predicted_cold_addition(const Machine& machine, const Reading& reading) {
  return from_table(machine.measured.additions, reading, 1, predicted_addition(machine, reading));
}
double predicted_footprint(const Machine& machine, const Reading& reading) {
  const MeasuredPrices& measured = machine.measured;
  if (measured.additions.empty()) return machine.seconds({.bytes = 3 * kFootprintPart});
  return line_at(measured.additions, kFootprintPart, measured.cold_share(reading.bytes)).at(kFootprintPart);
}
double predicted_copy(const Machine& machine, const Reading& reading) {
  return machine.seconds({.bytes = 2 * reading.bytes});
}
double predicted_product(const Machine& machine, const Reading& reading) {
  const double elements = static_cast<double>(reading.m * reading.k + reading.k * reading.n + reading.m * reading.n);
  return machine.seconds({.flop = reading.flop(),
                          .bytes = elements * static_cast<double>(bytes_of(reading.dtype)),
                          .dtype = reading.dtype,
                          .matmul = true,
                          .mnk = {reading.m, reading.n, reading.k}});
}

double predicted_operation(const Machine& machine, const Reading& reading) {
  return machine.seconds({.name = reading.operation.c_str(), .flop = reading.work});
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

namespace {
/// Returns the optional field of the file, preceded by a comma; empty if there are no tables.
std::string tables_field(const MeasuredPrices& tables) {
  if (tables.exchanges.empty()) return "";
  std::string text;
  for (const auto& [name, table] :
       {std::pair{"exchanges", &tables.exchanges}, {"one_way", &tables.one_way}, {"additions", &tables.additions}}) {
    text += fmt::format("    \"{}\": [", name);
    for (const SizePrice& point : *table)
      text += fmt::format("{}\n      {{\"bytes\": {}, \"seconds\": {}, \"cold_seconds\": {}}}",
                          &point == table->data() ? "" : ",", point.bytes, point.seconds, point.cold_seconds);
    text += "\n    ],\n";
  }
  text += "    \"products\": [";
  for (const ProductPrice& point : tables.products)
    text += fmt::format("{}\n      {{\"m\": {}, \"nk\": {}, \"seconds\": {}}}",
                        &point == tables.products.data() ? "" : ",", point.m, point.nk, point.seconds);
  std::string rates;
  for (const auto& [name, rate] : tables.operations)
    rates += fmt::format("{}\"{}\": {}", rates.empty() ? "" : ", ", name, rate);
  if (!rates.empty()) rates = fmt::format("    \"operations_flop_per_second\": {{{}}},\n", rates);
  std::string footprints;
  for (const FootprintPrice& point : tables.footprints)
    footprints += fmt::format("{}\n      {{\"bytes\": {}, \"seconds\": {}}}", footprints.empty() ? "" : ",",
                              point.bytes, point.seconds);
  if (!footprints.empty()) footprints = fmt::format("    \"footprints\": [{}\n    ],\n", footprints);
  return fmt::format("  \"tables\": {{\n{}\n    ],\n{}{}    \"cache_bytes\": {}\n  }},\n", text, rates, footprints,
                     tables.cache_bytes);
}
}  // namespace

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
      "  \"memory_bytes\": {},\n  \"memory_bytes_per_second\": {},\n  \"launch_seconds\": {},\n  \"eager_bytes\": "
      "{},\n{}"
      "  \"sources\": {{{}\n  }},\n  \"measured\": {}}}\n",
      quoted(machine.name), quoted(machine.description), link.ranks, link.latency, link.bytes_per_second, peaks, curve,
      machine.memory_bytes, machine.memory_bytes_per_second, machine.launch, machine.eager_bytes,
      tables_field(machine.measured), notes, results_json(context, measured));
}

std::string calibrated_file(const std::string& backend) { return machine_file_of_host(LOCKSTEP_SOURCE_DIR, backend); }

}  // namespace lockstep::bench

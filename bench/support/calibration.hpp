// Fits a machine file to measurements of this computer: messages, copies, additions, operations and matrix products.
// The quantities that it then predicts, collectives and training steps, are never fitted.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/machine/machine.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::bench {

/// One measured point: `bytes` for a message or a copy, the shape for a product.
struct Reading {
  double bytes = 0;
  std::size_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
  std::string operation;  // instead of these: an operation, and its work
  double work = 0;        // in FLOP
  double seconds = 0;
  double spread = 0;  // median distance of the passes from their median / that median
  static constexpr double kAgreement = 0.05;
  bool agrees() const { return spread <= kAgreement; }
  void set_passes(const std::vector<double>& passes);
  double flop() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

struct Readings {
  std::vector<Reading> messages;       // between two ranks, in both directions at once
  std::vector<Reading> one_way;        // the same in one direction: only to see how duplex the link is
  std::vector<Reading> additions;      // one slice to another, on all ranks at once
  std::vector<Reading> copies;         // one slice to another, likewise; only for comparison
  std::vector<Reading> cold_messages;  // messages and additions of arrays that no cache holds; none: no tables are made
  std::vector<Reading> cold_additions;
  std::vector<Reading> squares;     // f32 products of square matrices, by size: the efficiency curve
  std::vector<Reading> halves;      // the largest square again in bf16 and f16
  std::vector<Reading> others;      // f32 products of other shapes: only to see the error of the curve
  std::vector<Reading> grid;        // f32 products of m × s and s × s, with the same s for each m; none: no table
  std::vector<Reading> operations;  // neither bound by memory nor a single product, on all ranks at once
  std::vector<Reading> footprints;  // additions of kFootprintPart bytes that cycle through `bytes`
  double longest = 4 << 20;  // bytes of the largest message, copy or addition that a fitted line takes into account
  double cache_bytes = 0;    // a rank's part of the last cache, according to the host
  int passes = 1;

  /// Name and points of each kind.
  std::vector<std::pair<const char*, const std::vector<Reading>*>> by_kind() const;
};

/// Returns the passes in which a point took about as long (within a tenth) as in the median pass. A host that moves a
/// virtual machine's processors changes message times threefold, for seconds.
std::vector<std::size_t> passes_of_one_state(const std::vector<double>& seconds);

/// Bytes of each addition in a footprint's reading.
inline constexpr double kFootprintPart = 65536;

/// Values that are not measured, and their origin.
struct Unmeasured {
  double memory_bytes = 1e9;  // per rank
  std::string memory_source = "assumed";
  std::uint64_t eager_bytes = 4096;
  std::string eager_source = "assumed: 4096, the default of Open MPI 4.1 between processes that share memory";
};

/// Returns the values for a host with so many bytes of memory (0: unknown), which the ranks share equally.
Unmeasured unmeasured_of_host(double memory_bytes, int ranks);

/// The fitted machine, and standard errors.
struct Calibration {
  Machine machine;                                       // one level of links for any number of ranks
  double latency_error = 0, seconds_per_byte_error = 0;  // standard errors
  double launch_error = 0, gamma_error = 0;
  Unmeasured rest;  // also contained in `machine`
};

/// Fits a machine. α and β: a line through the messages up to 4 MiB with minimal relative errors. Launch and memory
/// bandwidth: a line through the additions, which move three bytes for each byte added. The matmul curve: through the
/// squares, without launch, with their best rate as the peak. Throws Error(usage) if there are fewer than two messages
/// or additions, or no square.
Calibration fit_machine(const Readings& readings, const Unmeasured& rest);

/// Time that the machine predicts for a point of that kind.
double predicted_message(const Machine& machine, const Reading& reading);
double predicted_one_way(const Machine& machine, const Reading& reading);
double predicted_cold_message(const Machine& machine, const Reading& reading);
double predicted_addition(const Machine& machine, const Reading& reading);
double predicted_cold_addition(const Machine& machine, const Reading& reading);
double predicted_footprint(const Machine& machine, const Reading& reading);
double predicted_copy(const Machine& machine, const Reading& reading);
double predicted_product(const Machine& machine, const Reading& reading);
double predicted_operation(const Machine& machine, const Reading& reading);

/// predicted / measured − 1 of the point with the largest error.
double worst_residual(const Machine& machine, const std::vector<Reading>& readings,
                      double (*predict)(const Machine&, const Reading&));

/// Returns the text of the machine file (docs/use/machines.md). `measured` contains the points and their residuals,
/// `context` their origin.
std::string machine_file(const Calibration& calibration, const Readings& readings, const Context& context,
                         const std::vector<Row>& measured);

/// Path of the file that `./lab calibrate` writes for this host and backend, and that every benchmark looks for.
std::string calibrated_file(const std::string& backend);

}  // namespace lockstep::bench

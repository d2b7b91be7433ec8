// A machine file from measurements of this computer: messages, copies and matrix products, nothing else. What it then
// predicts, collectives and training steps, was never fitted.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/machine/machine.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::bench {

/// One measured point. Of a message or a copy `bytes`, of a product its shape.
struct Reading {
  double bytes = 0;
  std::size_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
  std::string operation;  // or that, and its work
  double work = 0;        // FLOP
  double seconds = 0;
  double spread = 0;  // of the passes: the median distance from their median, over it
  static constexpr double kAgreement = 0.05;
  bool agrees() const { return spread <= kAgreement; }
  void set_passes(const std::vector<double>& passes);
  double flop() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

struct Readings {
  std::vector<Reading> messages;   // between two ranks, both ways at once
  std::vector<Reading> one_way;    // likewise with nothing coming back meanwhile: only to see how duplex the link is
  std::vector<Reading> additions;  // of a slice to another one, all ranks at once
  std::vector<Reading> copies;     // of a slice, likewise: only to compare
  std::vector<Reading> cold_messages;  // messages and additions of what no cache holds; none: no tables are made
  std::vector<Reading> cold_additions;
  std::vector<Reading> squares;     // f32 products of square matrices, by size: the efficiency curve
  std::vector<Reading> halves;      // the largest square once more in bf16 and f16
  std::vector<Reading> others;      // f32 products of other shapes: only to see how far the curve is off
  std::vector<Reading> grid;        // f32 products of m × s and s × s, for each m the same s; none: no table
  std::vector<Reading> operations;  // neither bound by memory nor one product, all ranks at once
  std::vector<Reading> footprints;  // additions of kFootprintPart bytes, in turn through `bytes`
  double cache_bytes = 0;           // a rank's share of the last cache, as the host describes it
  int passes = 1;

  /// What each kind is called, and its points.
  std::vector<std::pair<const char*, const std::vector<Reading>*>> by_kind() const;
};

/// Of passes in which one point took so long, those that are within a tenth of the middle one: a host that moves a
/// virtual machine's processors changes what messages take, threefold and for seconds.
std::vector<std::size_t> passes_of_one_state(const std::vector<double>& seconds);

/// Bytes of each addition of a footprint's reading.
inline constexpr double kFootprintPart = 65536;

/// What is not measured, and where it comes from.
struct Unmeasured {
  double memory_bytes = 1e9;  // of one rank
  std::string memory_source = "assumed";
  std::uint64_t eager_bytes = 4096;
  std::string eager_source = "assumed: 4096, the default of Open MPI 4.1 between processes that share memory";
};

/// Of a host with so many bytes of memory (0: unknown), which the ranks share equally.
Unmeasured unmeasured_of_host(double memory_bytes, int ranks);

/// What was fitted, and how surely.
struct Calibration {
  Machine machine;                                       // one level of links that joins any number of ranks
  double latency_error = 0, seconds_per_byte_error = 0;  // standard errors
  double launch_error = 0, gamma_error = 0;
  Unmeasured rest;  // and is in `machine` too
};

/// α and β: the line through the messages up to 4 MiB, relative errors minimised; launch and memory bandwidth: that
/// through the additions, which move three bytes for each byte added; the matmul curve: through the squares, launch
/// taken off, their best rate the peak. Throws Error(usage) where there are fewer than two messages or additions, or no
/// square.
Calibration fit_machine(const Readings& readings, const Unmeasured& rest);

/// What the machine predicts for a point of that kind.
double predicted_message(const Machine& machine, const Reading& reading);
double predicted_one_way(const Machine& machine, const Reading& reading);
double predicted_cold_message(const Machine& machine, const Reading& reading);
double predicted_addition(const Machine& machine, const Reading& reading);
double predicted_cold_addition(const Machine& machine, const Reading& reading);
double predicted_footprint(const Machine& machine, const Reading& reading);
double predicted_copy(const Machine& machine, const Reading& reading);
double predicted_product(const Machine& machine, const Reading& reading);
double predicted_operation(const Machine& machine, const Reading& reading);

/// predicted / measured − 1 of the point that is furthest off.
double worst_residual(const Machine& machine, const std::vector<Reading>& readings,
                      double (*predict)(const Machine&, const Reading&));

/// The machine file (docs/machines.md). `measured` holds the points and their residuals, `context` where they are from.
std::string machine_file(const Calibration& calibration, const Readings& readings, const Context& context,
                         const std::vector<Row>& measured);

/// Where `./lab calibrate` leaves the file of this host and backend, and every benchmark looks for it:
/// outputs/machines/HOST.json, HOST-cuda.json, HOST-nccl.json; LOCKSTEP_MACHINES names another folder.
std::string calibrated_file(const std::string& backend);

}  // namespace lockstep::bench

// What every command that measures writes: {"context": {…}, "rows": […]} as JSON, or the rows as CSV. docs/output.md
// documents each field. Light to include and to compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/support/text/files.hpp"  // check_writable, for who writes results

namespace lockstep {

/// One result: named values in the order they were set. Names are snake_case with the unit at the end ("seconds",
/// "busbw_gb_per_s", "peak_rss_bytes").
class Row {
 public:
  using Value = std::variant<double, std::int64_t, std::uint64_t, bool, std::string, std::vector<double>>;
  struct Field {
    std::string name;
    Value value;
  };

  Row& set(std::string name, bool value) { return put(std::move(name), value); }
  Row& set(std::string name, const char* value) { return put(std::move(name), std::string(value)); }
  Row& set(std::string name, std::string value) { return put(std::move(name), std::move(value)); }
  /// A number for each rank, stage, …: a list in JSON, numbers with spaces between them in CSV.
  Row& set(std::string name, std::vector<double> values) { return put(std::move(name), std::move(values)); }
  Row& set(std::string name, std::floating_point auto value) { return put(std::move(name), double(value)); }
  Row& set(std::string name, std::signed_integral auto value) { return put(std::move(name), std::int64_t(value)); }
  Row& set(std::string name, std::unsigned_integral auto value) { return put(std::move(name), std::uint64_t(value)); }

  const std::vector<Field>& fields() const { return fields_; }

 private:
  Row& put(std::string name, Value value);  // replaces a field of that name

  std::vector<Field> fields_;
};

/// Where results come from. A curve never mixes contexts.
struct Context {
  std::string machine;  // the processor measured on
  int cores = 0;        // usable: affinity and cgroup quota, two threads of one core counted once
  int hardware_threads = 0;
  std::string compiler;
  std::string build;                                          // CMake's build type
  std::vector<std::pair<std::string, std::string>> versions;  // of libraries: {"fmt", "9.1.0"}
  std::string commit;  // of the source when this was built, "-dirty" where files differed; "unknown" outside git
  std::string date;    // UTC, "2026-11-21T08:30:00Z"
  std::string code;    // whose answers the program was linked with: whose_code()
  Row more;            // whatever else a command knows: its options

  /// Of this program, here and now. Backends and devices add their libraries' versions.
  static Context here();
};

/// Written as write_atomically() does. Numbers that are not finite become null (in CSV, nothing); all others are
/// written so that reading gives the same bits.
void write_results(const std::string& path, const Context& context, std::span<const Row> rows);
/// Columns are all rows' fields, in order of first appearance.
void write_csv(const std::string& path, std::span<const Row> rows);

/// The text that `write_results` writes, and `write_csv`.
std::string results_json(const Context& context, std::span<const Row> rows);
std::string results_csv(std::span<const Row> rows);

}  // namespace lockstep

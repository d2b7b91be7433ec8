// Output of every command that measures: {"context": {…}, "rows": […]} as JSON, or the rows as CSV. docs/use/output.md
// documents each field. Light to include and to compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/support/text/files.hpp"  // check_writable, for programs that write results

namespace lockstep {

/// One result: named values in the order in which they were set. Names are snake_case with the unit at the end
/// ("seconds", "busbw_gb_per_s", "peak_rss_bytes").
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
  /// Sets one number per rank, stage, …: a list in JSON, numbers separated by spaces in CSV.
  Row& set(std::string name, std::vector<double> values) { return put(std::move(name), std::move(values)); }
  Row& set(std::string name, std::floating_point auto value) { return put(std::move(name), double(value)); }
  Row& set(std::string name, std::signed_integral auto value) { return put(std::move(name), std::int64_t(value)); }
  Row& set(std::string name, std::unsigned_integral auto value) { return put(std::move(name), std::uint64_t(value)); }

  const std::vector<Field>& fields() const { return fields_; }

 private:
  Row& put(std::string name, Value value);  // replaces a field of that name

  std::vector<Field> fields_;
};

/// Origin of results. A curve never mixes contexts.
struct Context {
  std::string machine;  // processor on which the results were measured
  int cores = 0;        // usable cores: affinity and cgroup quota, two threads of one core counted once
  int hardware_threads = 0;
  std::string compiler;
  std::string build;                                          // CMake's build type
  std::vector<std::pair<std::string, std::string>> versions;  // versions of libraries: {"fmt", "9.1.0"}
  std::string commit;  // the source's at build time, "-dirty" if files differed; "unknown" outside git
  std::string date;    // UTC, "2026-11-21T08:30:00Z"
  std::string code;    // the answers that the program was linked with: whose_code()
  Row more;            // other things that a command knows, such as its options

  /// Returns the context of this program on this computer, now. Backends and devices add their libraries' versions.
  static Context here();
};

/// Writes like write_atomically(). Numbers that are not finite become null (nothing in CSV); all others are written
/// such that reading them gives the same bits.
void write_results(const std::string& path, const Context& context, std::span<const Row> rows);
/// Columns are the fields of all rows, in order of first appearance.
void write_csv(const std::string& path, std::span<const Row> rows);

/// A text as a field of a CSV file (RFC 4180): in quotes where it needs them.
std::string csv_field(const std::string& text);

/// Return the texts that `write_results` and `write_csv` write.
std::string results_json(const Context& context, std::span<const Row> rows);
std::string results_csv(std::span<const Row> rows);

}  // namespace lockstep

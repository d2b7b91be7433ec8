#include "bench/support/nccl_columns.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "common/runtime/machine/library.hpp"
#include "common/support/json/row_fields.hpp"
#include "common/support/stats/bus_factor.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {

bool has_nccl() { return std::string_view(backend_name()) == "nccl"; }

namespace {

constexpr double kNoticed = 1.02;  // busbw over the links' bandwidth

/// The program's name, and its values for the columns redop and root.
struct Program {
  const char *name, *redop;
  bool whole = true;  // its count is of the whole array, not of a rank's part
};
Program program_of(std::string_view collective) {
  if (collective == "all_reduce") return {"all_reduce_perf", "sum"};
  if (collective == "reduce_scatter") return {"reduce_scatter_perf", "sum", false};
  if (collective == "all_gather") return {"all_gather_perf", "none", false};
  return {"alltoall_perf", "none", false};
}

bool on_one_node(const NcclTable& table) { return table.machine.level_between(0, table.ranks - 1) == 0; }

bool by_curve(const NcclTable& table) {
  return on_one_node(table) && table.machine.library && !table.machine.library->all_reduce.empty();
}

std::string what_is_expected(const NcclTable& table) {
  if (table.floor) return "a perfect network's time, which nothing can beat";
  return by_curve(table) ? "what NCCL reaches on such a node, as others measured it"
                         : "rings and trees over all ports, by the links' latencies and bandwidths";
}

/// time, algbw and busbw as nccl-tests prints them.
std::string three_columns(const NcclTable& table, double bytes, double seconds) {
  const double us = seconds * 1e6, algbw = bytes / seconds / 1e9;
  return fmt::format("  {:>7.{}f} {:>7.2f} {:>7.2f}", us,
                     us < 100     ? 2
                     : us < 10000 ? 1
                                  : 0,
                     algbw, algbw * bus_factor(table.collective, table.ranks));
}

/// Seconds that were measured; NaN if they were not.
double measured(const NcclTable& table, const std::vector<Row>& rows, std::uint64_t bytes) {
  for (const Row& row : rows) {
    const auto is = [&](const char* name, const Row::Value& value) {
      const Row::Value* found = find(row, name);
      return found && *found == value;
    };
    const bool same = !find(row, "collective") || is("collective", table.collective);
    if (same && is("algorithm", std::string("library")) && is("ranks", std::int64_t{table.ranks}) && is("bytes", bytes))
      return number(row, "seconds");
  }
  return std::nan("");
}

/// Why busbw may exceed what the links carry: it counts a ring's bytes.
std::string about_busbw(const NcclTable& table) {
  const bool one_node = on_one_node(table);
  if (table.floor)
    return one_node ? ""
                    : "# busbw counts all bytes that a GPU sends, and the network carries those that leave its node\n";
  const double ring = library_ring_bytes_per_second(table.machine, table.ranks);
  const NcclTable::Line& last = table.lines.back();
  const double reached = static_cast<double>(last.bytes) / last.seconds * bus_factor(table.collective, table.ranks);
  std::string text = fmt::format("# a ring's busbw is at most {} on these links\n", format_bandwidth(ring));
  if (reached > kNoticed * ring)
    text += one_node ? "# NCCL's is higher because the switch adds (NVLS): a link then carries size bytes each way,\n"
                       "# and busbw still counts the 2(p − 1)/p × size of a ring\n"
                     : "# NCCL's is higher because trees connect two nodes: a node then sends size bytes,\n"
                       "# and busbw still counts the 2(p − 1)/p × size of a ring\n";
  return text;
}

/// A remark that the curve begins at a larger size than the table does.
std::string about_small_sizes(const NcclTable& table) {
  const double first = by_curve(table) ? table.machine.library->all_reduce.front().bytes : 0;
  if (table.floor || static_cast<double>(table.lines.front().bytes) >= first) return "";
  return fmt::format("# nobody published smaller sizes than {}: below it, its time is printed\n", format_bytes(first));
}

void report_predictions(Bench& bench, const NcclTable& table) {
  for (const NcclTable::Line& line : table.lines)
    bench.report(Row()
                     .set("backend", backend_name())
                     .set("machine", table.machine.name)
                     .set("ranks", table.ranks)
                     .set("algorithm", "library")
                     .set("collective", table.collective)
                     .set("bytes", line.bytes)
                     .set(table.floor ? "floor_seconds" : "library_seconds", line.seconds));
}

std::string as_text(const NcclTable& table, const std::vector<Row>& rows) {
  const Program program = program_of(table.collective);
  const bool both = has_nccl();
  const std::string three = fmt::format("  {:>7} {:>7} {:>7}", "time", "algbw", "busbw");
  const std::string units = fmt::format("  {:>7} {:>7} {:>7}", "(us)", "(GB/s)", "(GB/s)");
  std::string text = fmt::format("# {} on {} ranks of {}: {}\n", program.name, table.ranks, table.machine.name,
                                 what_is_expected(table));
  if (both) text += fmt::format("#{:51}  {:^23}  {:^23}\n", "", "measured", "predicted");
  text += fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "size", "count", "type", "redop", "root", three,
                      both ? three : "");
  text += fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "(B)", "(elements)", "", "", "", units,
                      both ? units : "");
  for (const NcclTable::Line& line : table.lines) {
    const auto bytes = static_cast<double>(line.bytes);
    const std::uint64_t count = line.bytes / 4 / (program.whole ? 1 : static_cast<std::uint64_t>(table.ranks));
    text += fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", line.bytes, count, "float", program.redop, -1);
    if (both) text += three_columns(table, bytes, measured(table, rows, line.bytes));
    text += three_columns(table, bytes, line.seconds) + "\n";
  }
  return text + about_busbw(table) + about_small_sizes(table);
}

}  // namespace

bool wants_nccl_columns(const Bench& bench, const std::string& columns) {
  if (columns.empty()) return false;
  if (columns != "nccl")
    throw Error(Verdict::usage, fmt::format("--columns {}: there is only nccl, for those of nccl-tests", columns));
  if (!has_nccl() && !time_is_virtual())
    throw Error(Verdict::usage,
                "--columns nccl: NCCL is predicted without --backend, and measured with --backend nccl");
  if (!bench.has_machine())
    throw Error(Verdict::usage, "--columns nccl needs --machine NAME, for which NCCL's times are predicted");
  for (const int ranks : bench.ranks())
    if (ranks < 2) throw Error(Verdict::usage, "--columns nccl --ranks 1: a single rank sends nothing");
  return true;
}

void run_and_print(Bench& bench, const std::vector<NcclTable>& tables) {
  if (tables.empty()) return bench.run();
  for (const NcclTable& table : tables) report_predictions(bench, table);
  bench.run([&](const std::vector<Row>& rows) {
    for (const NcclTable& table : tables) fmt::print("{}{}", &table == tables.data() ? "" : "\n", as_text(table, rows));
    fmt::print("# ./lab report --from FILE --machine {} draws what nccl-tests printed beside such numbers\n",
               tables.front().machine.name);
  });
}

}  // namespace lockstep::bench

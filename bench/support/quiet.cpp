#include "bench/support/quiet.hpp"

#include <fmt/format.h>

#include <cmath>

#include "common/runtime/has_cores.hpp"
#include "common/support/json/row_fields.hpp"

namespace lockstep::bench {
namespace {

/// Seconds of a probe in its table; 0 if there is none.
double calibrated_seconds(const std::vector<SizePrice>& table) {
  return table.empty() ? 0 : line_at(table, Probes::kBytes, 0).at(Probes::kBytes);
}

/// Relative slowdown of the probe against its calibration; NaN if there is nothing to compare.
double slower(const std::vector<SizePrice>& calibrated, double seconds) {
  if (calibrated.empty() || seconds == 0) return std::nan("");
  return seconds / calibrated_seconds(calibrated) - 1;
}

bool small(double change) { return std::isnan(change) || std::abs(change) <= Probes::kSame; }

double larger(double a, double b) { return std::abs(b) > std::abs(a) ? b : a; }  // a comparison with NaN is false

}  // namespace

void expect_probes(Plan& plan, const MeasuredPrices& calibrated) {
  plan.exchange = calibrated_seconds(calibrated.exchanges);
  plan.addition = calibrated_seconds(calibrated.additions);
}

bool is_quiet(const MeasuredPrices& calibrated, const Probes& probes) {
  return small(probes.drift) && small(slower(calibrated.exchanges, probes.exchange)) &&
         small(slower(calibrated.additions, probes.addition));
}

void set_quiet(Row& row, const MeasuredPrices& calibrated, const RunOptions& options, const Probes& probes) {
  if (probes.addition == 0) return;
  const double links = slower(calibrated.exchanges, probes.exchange);
  const double additions = slower(calibrated.additions, probes.addition);
  row.set("turns_left_out", probes.turns_left_out);
  row.set("drift", probes.drift).set("links_against_calibration", links);
  row.set("additions_against_calibration", additions);
  row.set("quiet", is_quiet(calibrated, probes));
  row.set("fits_cores", has_cores(options));
}

std::string what_was_not_quiet(const std::vector<Row>& rows) {
  int noisy = 0;
  double drift = 0, links = 0, additions = 0, spread = 0;
  for (const Row& row : rows) {
    const Row::Value* quiet = find(row, "quiet");
    if (!quiet || std::get<bool>(*quiet)) continue;
    ++noisy;
    drift = larger(drift, number(row, "drift"));
    links = larger(links, number(row, "links_against_calibration"));
    additions = larger(additions, number(row, "additions_against_calibration"));
    spread = larger(spread, number(row, "spread"));
  }
  if (noisy == 0) return "";
  if (spread > 0)
    return fmt::format(
        "not quiet in {} of {} rows: emulated times, which are the same each time on an idle computer, have 95% "
        "intervals up to {:.0f}% wide. Stop other programs, or make times longer by a larger --scale\n",
        noisy, rows.size(), 100 * spread);
  std::string text = fmt::format("not quiet in {} of {} rows: within a run, probes changed by up to {:+.0f}%", noisy,
                                 rows.size(), 100 * drift);
  if (links != 0 || additions != 0)
    text += fmt::format("; against the calibration, messages of 64 KiB by up to {:+.0f}% and additions by {:+.0f}%",
                        100 * links, 100 * additions);
  return text +
         ". Predictions assume an otherwise idle computer: stop other programs, run ./lab calibrate, and measure "
         "again\n";
}

}  // namespace lockstep::bench

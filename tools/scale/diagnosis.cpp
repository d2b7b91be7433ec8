#include "tools/scale/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/support/host/host.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "labs/week25_3d/diagnosis.hpp"

namespace lockstep::scaling {
namespace {

using analysis::Cost;
using week25::Decomposition;
using week25::Limit;

/// The last round's seconds, in those of the median step.
double to_median(const Point& point) { return point.seconds.value / point.why.recorded_seconds; }

double data_seconds(const Point& point) {
  return to_median(point) * (point.why.seconds - point.why.gain(Cost::data).seconds);
}

/// The step without what it loads. The trace knows the time of each message, whatever its link: for 25.4 a byte takes
/// one second, and a rank receives as many as its messages take seconds. What a host does between operations is launch.
week25::StepLedgers ledgers_of(const Point& point) {
  const double factor = to_median(point);
  week25::StepLedgers step{.seconds = point.seconds.value - data_seconds(point), .latency = 0, .seconds_per_byte = 1};
  for (const analysis::RankUse& use : point.why.use) {
    step.ranks.push_back({.arithmetic = factor * (use.arithmetic + use.host),
                          .launch = factor * (use.launch + use.host),
                          .hidden = factor * use.hidden,
                          .messages = 0,
                          .bytes = factor * use.wire});
    step.seconds = std::max(step.seconds, step.ranks.back().arithmetic);  // up to rounding
  }
  return step;
}

/// The operation that takes longest beyond its share of the serial one.
std::string least_divided(const Point& parallel, const Point& serial, double share) {
  std::string name;
  double most = 0;
  for (const auto& [operation, seconds] : parallel.why.operations) {
    const auto before = serial.why.operations.find(operation);
    const double own = before == serial.why.operations.end() ? 0 : before->second;
    const double excess = to_median(parallel) * seconds - share * to_median(serial) * own;
    if (excess > most) most = excess, name = operation;
  }
  return fmt::format("{}, {}", name, format_seconds(most));
}

std::string_view to_string(Limit limit) {
  switch (limit) {
    case Limit::none: return "none";
    case Limit::not_overlapped: return "communication not overlapped";
    case Limit::communication: return "more communication than arithmetic";
    case Limit::bubble: return "pipeline bubble";
    case Limit::imbalance: return "imbalance";
    case Limit::launch: return "model too small";
    case Limit::repeated: return "arithmetic not divided";
  }
  return "unknown";
}

std::string evidence(Limit limit, double most, const Decomposition& step) {
  const std::string lost = format_seconds(most);
  const std::string messages = fmt::format("messages cost {} of a step: {} on the wire, {} of it overlapped", lost,
                                           format_seconds(step.wire), format_seconds(step.wire - step.exposed));
  const std::string arithmetic = format_seconds(step.compute + step.launch);
  switch (limit) {
    case Limit::not_overlapped:
      return fmt::format("{} with arithmetic, which would last long enough ({})", messages, arithmetic);
    case Limit::communication: return fmt::format("{}, and all arithmetic is {}", messages, arithmetic);
    case Limit::bubble: return fmt::format("waiting for other ranks' work costs {} of a step", lost);
    case Limit::imbalance: return fmt::format("unequal shares of the arithmetic cost {} of a step", lost);
    case Limit::launch:
      return fmt::format(
          "launching operations costs {} of a step more than its share: the same number of operations, each with less "
          "to do",
          lost);
    default: return fmt::format("arithmetic takes {} longer than its share", lost);
  }
}

}  // namespace

Diagnosis diagnose(const Study& study, const Point& point) {
  Diagnosis d;
  if (!point.fits_cores) {
    d.limit = "oversubscribed cores";
    d.sentence = fmt::format("{}: {} ranks, and {}; efficiency is not computed", d.limit, point.ranks,
                             counted(read_host().usable_cores, "usable core"));
    return d;
  }
  const double share = study.weak ? 1 : 1.0 / point.ranks;
  const Decomposition parallel = week25::decompose(ledgers_of(point)),
                      serial = week25::decompose(ledgers_of(study.serial));
  const week25::Diagnosis answer =
      week25::name_limit(parallel, serial, point.ranks, study.weak ? week25::Scaling::weak : week25::Scaling::strong);
  const double data = data_seconds(point) - share * data_seconds(study.serial);
  d.ideal_seconds = answer.ideal + share * data_seconds(study.serial);
  d.lost_seconds = answer.lost + data;
  d.losses = {{Cost::communication, parallel.exposed - share * serial.exposed},
              {Cost::bubble, parallel.bubble - share * serial.bubble},
              {Cost::imbalance, parallel.imbalance - share * serial.imbalance},
              {Cost::launch, parallel.launch - share * serial.launch},
              {Cost::data, data},
              {Cost::arithmetic, parallel.compute - share * serial.compute}};
  const std::string step = format_seconds(point.seconds.value), ideal = format_seconds(d.ideal_seconds);
  d.limit = to_string(answer.limit);
  std::string why = evidence(answer.limit, answer.most, parallel);
  if (answer.limit == Limit::repeated)
    why += fmt::format(
        ", most of all {}: what every rank repeats is not divided, and smaller pieces use the machine less efficiently",
        least_divided(point, study.serial, share));
  if (data > answer.most && d.lost_seconds >= week25::kWorthNaming * point.seconds.value) {
    d.limit = "data loading";
    why = fmt::format("loading data costs {} of a step", format_seconds(data));
  }
  d.sentence = d.limit == "none" ? fmt::format("scales: {} per step, ideally {}", step, ideal)
                                 : fmt::format("{}: a step takes {}, ideally {}; {}", d.limit, step, ideal, why);
  return d;
}

}  // namespace lockstep::scaling

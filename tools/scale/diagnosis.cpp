#include "tools/scale/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/support/host/host.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::scaling {
namespace {

using analysis::Cost;

/// Seconds of all arithmetic, mean over the ranks: unequal shares are imbalance.
double mean_arithmetic(const analysis::Why& why) {
  double sum = 0;
  for (const auto& [name, seconds] : why.operations) sum += seconds;
  return sum;
}

/// The operation that takes longest beyond its share of the serial one.
std::string least_divided(const analysis::Why& parallel, const analysis::Why& serial, double share) {
  std::string name;
  double most = 0;
  for (const auto& [operation, seconds] : parallel.operations) {
    const auto before = serial.operations.find(operation);
    const double excess = seconds - (before == serial.operations.end() ? 0 : share * before->second);
    if (excess > most) most = excess, name = operation;
  }
  return fmt::format("{}, {}", name, format_seconds(most));
}

double cost_of(const analysis::Why& why, Cost cost) {
  return cost == Cost::arithmetic ? mean_arithmetic(why) : why.seconds - why.gain(cost).seconds;
}

/// The rank whose bytes move longest.
const analysis::RankUse& mover(const analysis::Why& why) {
  return *std::max_element(why.use.begin(), why.use.end(),
                           [](const auto& a, const auto& b) { return a.moving < b.moving; });
}

Limit limit_of(const Loss& loss, const analysis::Why& why) {
  switch (loss.cost) {
    case Cost::communication:
      return mover(why).moving <= mover(why).arithmetic ? Limit::communication_exposed : Limit::communication;
    case Cost::bubble: return Limit::bubble;
    case Cost::imbalance: return Limit::imbalance;
    case Cost::data: return Limit::data;
    case Cost::launch: return Limit::too_small;
    case Cost::arithmetic: break;
  }
  return Limit::not_divided;
}

std::string evidence(const Diagnosis& d, const analysis::Why& why, const analysis::Why& serial, double share) {
  const Loss& largest = d.losses.front();
  const std::string lost = format_seconds(largest.seconds);
  const analysis::RankUse& use = mover(why);
  switch (d.limit) {
    case Limit::communication_exposed:
      return fmt::format(
          "messages cost {} of a step: bytes move for {}, {} of it overlapped with arithmetic, which would last "
          "long enough ({})",
          lost, format_seconds(use.moving), format_seconds(use.hidden), format_seconds(use.arithmetic));
    case Limit::communication:
      return fmt::format(
          "messages cost {} of a step: bytes move for {}, {} of it overlapped with arithmetic, and all arithmetic, "
          "compute and other, is {}",
          lost, format_seconds(use.moving), format_seconds(use.hidden), format_seconds(use.arithmetic));
    case Limit::bubble: return fmt::format("waiting for other ranks' work costs {} of a step", lost);
    case Limit::imbalance: return fmt::format("unequal shares of the arithmetic cost {} of a step", lost);
    case Limit::data: return fmt::format("loading data costs {} of a step", lost);
    case Limit::too_small:
      return fmt::format(
          "launching operations costs {} of a step more than its share: the same number of operations, each with less "
          "to do",
          lost);
    default: break;
  }
  return fmt::format(
      "arithmetic takes {} longer than its share, most of all {}: what every rank repeats is not divided, "
      "and smaller pieces use the machine less efficiently",
      lost, least_divided(why, serial, share));
}

}  // namespace

std::string_view to_string(Limit limit) {
  switch (limit) {
    case Limit::none: return "none";
    case Limit::oversubscribed: return "oversubscribed cores";
    case Limit::communication_exposed: return "communication not overlapped";
    case Limit::communication: return "more communication than arithmetic";
    case Limit::bubble: return "pipeline bubble";
    case Limit::imbalance: return "imbalance";
    case Limit::too_small: return "model too small";
    case Limit::not_divided: return "arithmetic not divided";
    case Limit::data: return "data loading";
  }
  return "";
}

Diagnosis diagnose(const Study& study, const Point& point) {
  Diagnosis d;
  const double share = study.weak ? 1 : 1.0 / point.ranks;
  if (!point.fits_cores) {
    d.limit = Limit::oversubscribed;
    d.sentence = fmt::format("{}: {} ranks, and {} usable core{}; efficiency is not computed", to_string(d.limit),
                             point.ranks, read_host().usable_cores, read_host().usable_cores == 1 ? "" : "s");
    return d;
  }
  d.ideal_seconds = share * study.serial.seconds.value;
  d.lost_seconds = point.seconds.value - d.ideal_seconds;
  for (Cost cost : {Cost::communication, Cost::bubble, Cost::imbalance, Cost::launch, Cost::data, Cost::arithmetic})
    d.losses.push_back({cost, cost_of(point.why, cost) - share * cost_of(study.serial.why, cost)});
  std::stable_sort(d.losses.begin(), d.losses.end(),
                   [](const Loss& a, const Loss& b) { return a.seconds > b.seconds; });
  if (d.lost_seconds < analysis::kWorthNaming * point.seconds.value) {
    d.sentence = fmt::format("scales: {} per step, ideally {}", format_seconds(point.seconds.value),
                             format_seconds(d.ideal_seconds));
    return d;
  }
  d.limit = limit_of(d.losses.front(), point.why);
  d.sentence =
      fmt::format("{}: a step takes {}, ideally {}; {}", to_string(d.limit), format_seconds(point.seconds.value),
                  format_seconds(d.ideal_seconds), evidence(d, point.why, study.serial.why, share));
  return d;
}

}  // namespace lockstep::scaling

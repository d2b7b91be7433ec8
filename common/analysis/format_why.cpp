#include "common/analysis/format_why.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/support/text/units.hpp"

namespace lockstep::analysis {
namespace {

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// Formats as 12.3, and never as −0.0.
std::string gained(double share) {
  const double rounded = std::round(1000 * share) / 10;
  return fmt::format("{:.1f}", rounded == 0 ? 0 : rounded);
}

/// Returns the rank with the largest value of `of`.
template <class Of>
std::size_t rank_with_most(const Why& why, Of of) {
  return static_cast<std::size_t>(std::max_element(why.use.begin(), why.use.end(),
                                                   [&](const RankUse& a, const RankUse& b) { return of(a) < of(b); }) -
                                  why.use.begin());
}

std::string evidence(const Why& w) {
  const auto waiting = rank_with_most(w, [](const RankUse& u) { return u.waiting; });
  const auto moving = rank_with_most(w, [](const RankUse& u) { return u.moving; });
  const auto working = rank_with_most(w, [](const RankUse& u) { return u.arithmetic; });
  const auto loading = rank_with_most(w, [](const RankUse& u) { return u.loading; });
  const RankUse &most_waiting = w.use[waiting], &most_moving = w.use[moving], &most_working = w.use[working];
  double mean = 0;
  for (const RankUse& use : w.use) mean += use.arithmetic / static_cast<double>(w.use.size());
  switch (w.limit) {
    case Cost::communication:
      return fmt::format("rank {} has messages in flight for {} per step, and {:.0f}% of that overlaps arithmetic",
                         moving, format_seconds(most_moving.moving), percent(most_moving.hidden, most_moving.moving));
    case Cost::bubble:
      return fmt::format("rank {} idles for {} per step ({:.0f}%), waiting for other ranks", waiting,
                         format_seconds(most_waiting.waiting), percent(most_waiting.waiting, w.seconds));
    case Cost::imbalance:
      return fmt::format("rank {} computes for {} per step, and all ranks for {} on average", working,
                         format_seconds(most_working.arithmetic), format_seconds(mean));
    case Cost::launch:
      if (most_working.launch > 0)
        return fmt::format(
            "the {} operations of rank {} compute for {} per step, and {:.0f}% of that is launch overhead",
            most_working.operations, working, format_seconds(most_working.arithmetic),
            percent(most_working.launch, most_working.arithmetic));
      return fmt::format("the {} operations of rank {} take {} per step, and the rest of the step passes between them",
                         most_working.operations, working, format_seconds(most_working.arithmetic));
    case Cost::data:
      return fmt::format("rank {} loads data for {} per step, and {} of the critical path is host time", loading,
                         format_seconds(w.use[loading].loading), format_seconds(w.path_host));
    case Cost::arithmetic: break;
  }
  return fmt::format("rank {} computes for {:.0f}% of a step", working, percent(most_working.arithmetic, w.seconds));
}

std::string subject(Cost cost) {
  switch (cost) {
    case Cost::communication: return "if messages took no time";
    case Cost::bubble: return "if no rank waited for another's work";
    case Cost::imbalance: return "if all ranks shared the arithmetic equally";
    case Cost::launch: return "if launching operations cost nothing";
    case Cost::data: return "if data were ready at once";
    case Cost::arithmetic: break;
  }
  return "";
}

std::string limit_in_words(Cost cost, bool modelled) {
  if (cost == Cost::launch && !modelled) return "the host's time between operations limits this run";
  switch (cost) {
    case Cost::communication: return "communication limits this run";
    case Cost::bubble: return "the bubble limits this run";
    case Cost::imbalance: return "imbalance limits this run";
    case Cost::launch: return "launch overhead limits this run: the model is too small for the machine";
    case Cost::data: return "loading data limits this run";
    case Cost::arithmetic: break;
  }
  return "arithmetic limits this run";
}

std::string header(const Why& w) {
  std::string steps = "the whole run";
  if (w.steps_in_run > 0)
    steps = fmt::format("step{} {}{} of {}", w.steps == 1 ? "" : "s", w.first_step + 1,
                        w.steps == 1 ? "" : fmt::format(" to {}", w.first_step + w.steps), w.steps_in_run);
  const std::string unit = w.steps_in_run > 0 ? " per step" : "";
  std::string text =
      fmt::format("run       {} rank{}, {}: {}{} as recorded, {} replayed\n", w.ranks, w.ranks == 1 ? "" : "s", steps,
                  format_seconds(w.recorded_seconds), unit, format_seconds(w.seconds));
  if (std::abs(w.seconds / w.recorded_seconds - 1) > 0.1)
    text += fmt::format("          the two differ by more than 10%: {}\n",
                        w.modelled ? "this computer could not keep up with the modelled times"
                                   : "something that took time is not in the trace");
  return text;
}

/// Formats one line per rank, if there are few.
std::string format_ranks(const Why& w) {
  constexpr std::size_t kMost = 16;
  if (w.use.size() < 2 || w.use.size() > kMost) return "";
  std::string text = fmt::format("\n{:>4}  {:>10}  {:>10}  {:>10}  {:>10}   of a step\n", "rank", "computes", "loads",
                                 "waits", "moves");
  for (std::size_t rank = 0; rank < w.use.size(); ++rank) {
    const RankUse& use = w.use[rank];
    text += fmt::format("{:>4}  {:>10}  {:>10}  {:>10}  {:>10}\n", rank, format_seconds(use.arithmetic),
                        format_seconds(use.loading), format_seconds(use.waiting), format_seconds(use.moving));
  }
  return text;
}

}  // namespace

std::string_view to_string(Cost cost) {
  switch (cost) {
    case Cost::communication: return "communication";
    case Cost::bubble: return "bubble";
    case Cost::imbalance: return "imbalance";
    case Cost::launch: return "launch";
    case Cost::data: return "data";
    case Cost::arithmetic: return "arithmetic";
  }
  return "";
}

std::string sentence_of(const Why& w) {
  if (w.limit == Cost::arithmetic)
    return fmt::format("{}: without any other cost a step would be less than {:.0f}% shorter, and {}.",
                       limit_in_words(w.limit, w.modelled), 100 * kWorthNaming, evidence(w));
  const Gain& gain = w.gain(w.limit);
  return fmt::format("{}: {}, a step would take {} instead of {} ({:.0f}% less), and {}.",
                     limit_in_words(w.limit, w.modelled), subject(w.limit), format_seconds(gain.seconds),
                     format_seconds(w.seconds), 100 * gain.gained, evidence(w));
}

std::string format_why(const Why& w) {
  std::string text = header(w) + "limit     " + w.sentence + "\n\n";
  text += fmt::format("{:<46}  {:>10}  {:>8}\n", "a step, replayed", "seconds", "gained");
  for (const Gain& g : w.gains)
    text += fmt::format("{:<46}  {:>10}  {:>7}%\n", subject(g.cost), format_seconds(g.seconds), gained(g.gained));
  const double path = w.path_transfer + w.path_arithmetic + w.path_launch + w.path_host;
  text += fmt::format(
      "\ncritical path of a step: arithmetic {:.1f}%, launch {:.1f}%, transfers {:.1f}%, host {:.1f}%; it goes from "
      "rank to rank {} times in {} step{}\n",
      percent(w.path_arithmetic, path), percent(w.path_launch, path), percent(w.path_transfer, path),
      percent(w.path_host, path), w.path_hops, w.steps, w.steps == 1 ? "" : "s");
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < std::min(kMost, w.path.size()); ++i) {
    const PathShare& share = w.path[i];
    text += fmt::format("  {:>6.1f}%  {:>8}  {} × {}{}\n", percent(share.seconds, path), format_seconds(share.seconds),
                        share.visits, share.name, share.transfer ? " (transfers)" : "");
  }
  if (w.path.size() > kMost) text += fmt::format("  and {} more\n", w.path.size() - kMost);
  return text + format_ranks(w);
}

std::vector<Row> rows(const Why& w) {
  std::vector<Row> all;
  for (const Gain& g : w.gains)
    all.emplace_back()
        .set("cost", std::string(to_string(g.cost)))
        .set("seconds", w.seconds)
        .set("seconds_without", g.seconds)
        .set("gained", g.gained)
        .set("limit", g.cost == w.limit);
  for (const PathShare& share : w.path)
    all.emplace_back()
        .set("path", share.name)
        .set("transfer", share.transfer)
        .set("seconds", share.seconds)
        .set("visits", share.visits);
  for (std::size_t rank = 0; rank < w.use.size(); ++rank)
    all.emplace_back()
        .set("rank", rank)
        .set("arithmetic_seconds", w.use[rank].arithmetic)
        .set("launch_seconds", w.use[rank].launch)
        .set("loading_seconds", w.use[rank].loading)
        .set("waiting_seconds", w.use[rank].waiting)
        .set("moving_seconds", w.use[rank].moving)
        .set("hidden_seconds", w.use[rank].hidden)
        .set("operations", w.use[rank].operations);
  return all;
}

}  // namespace lockstep::analysis

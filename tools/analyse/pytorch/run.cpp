#include "tools/analyse/pytorch/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "common/support/stats/bus_factor.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/columns.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::pytorch {
namespace {

using analysis::common;
using analysis::joined;
using analysis::length;
using analysis::outside;

class Analysis {
 public:
  explicit Analysis(const Matched& matched) : traces_(matched.ranks), meetings_(matched.meetings) {}

  Run run() const {
    Run run{.steps = static_cast<int>(traces_[0].steps.size()), .gpu = traces_[0].gpu, .backend = traces_[0].backend};
    run.of_ranks = traces_[0].ranks;
    run.partial = is_partial();
    run.matched = static_cast<int>(meetings_.size());
    for (std::size_t i = 0; i < traces_.size(); ++i) run.ranks.push_back(time_of(i));
    run.collectives = collectives();
    conclude(run);
    return run;
  }

 private:
  /// A collective has ranks that were not given.
  bool is_partial() const {
    if (static_cast<int>(traces_.size()) == traces_[0].ranks) return false;
    std::map<const Collective*, int> met;
    for (const Meeting& m : meetings_)
      for (const auto& [i, c] : m.at) met[c] = static_cast<int>(m.at.size());
    for (const RankTrace& trace : traces_)
      for (const Collective& c : trace.collectives) {
        const auto found = met.find(&c);
        if (c.members != 1 && (c.members == 0 || found == met.end() || found->second < c.members)) return true;
      }
    return false;
  }

  RankTime time_of(std::size_t i) const {
    const RankTrace& trace = traces_[i];
    const double steps = static_cast<double>(trace.steps.size());
    const std::vector<Interval> window{{trace.steps.front().begin, trace.steps.back().end}};
    std::vector<Interval> computing, inside, waiting;
    for (const Operation& o : trace.operations) computing.push_back(o.when);
    computing = common(computing, window);
    for (const Collective& c : trace.collectives) inside.push_back(c.when);
    int last = 0;
    double held = 0;
    const double step = length(window) / steps;
    for (const Meeting& m : meetings_) {
      const auto mine = m.at.find(i);
      if (mine == m.at.end()) continue;
      const Interval& when = mine->second->when;
      waiting.push_back({when.begin, std::clamp(m.last_arrival(), when.begin, when.end)});
      if (m.last_arrival() == when.begin)
        for (const auto& [other, c] : m.at) held += (when.begin - c->when.begin) / steps;
      last += m.last_arrival() == when.begin && m.last_arrival() - m.first_arrival() > kNoticed * step;
    }
    inside = common(joined(inside), window);
    waiting = common(joined(waiting), window);
    RankTime time{.rank = trace.rank, .step = step, .computing = length(computing) / steps, .held = held, .last = last};
    time.hidden = length(common(inside, computing)) / steps;
    time.waiting = (length(waiting) - length(common(waiting, computing))) / steps;
    time.moving = length(inside) / steps - time.hidden - time.waiting;
    time.idle = time.step - time.computing - time.moving - time.waiting;
    name_idle(time, trace, outside(outside(window, computing), inside));
    return time;
  }

  static void name_idle(RankTime& time, const RankTrace& trace, const std::vector<Interval>& idle) {
    std::map<std::string, std::vector<Interval>> parts;
    for (const Operation& part : trace.parts) parts[part.name].push_back(part.when);
    double shortest = INFINITY;
    for (auto& [name, spans] : parts) {
      spans = joined(std::move(spans));
      const double share = length(common(spans, idle)) / length(idle);
      if (!(share >= 0.5) || length(spans) >= shortest) continue;  // without idle time it is not a number
      shortest = length(spans);
      time.part = name;
      time.in_part = share * time.idle;
    }
  }

  std::vector<CollectiveTime> collectives() const {
    std::map<std::tuple<std::string, double, int>, std::pair<std::vector<double>, std::vector<double>>> kinds;
    for (const Meeting& m : meetings_) {
      const Collective& c = m.any();
      auto& [moving, waiting] = kinds[{c.name, c.bytes, c.members ? c.members : static_cast<int>(m.at.size())}];
      moving.push_back(m.end() - m.last_arrival());
      waiting.push_back(m.last_arrival() - m.first_arrival());
    }
    std::vector<CollectiveTime> all;
    for (const auto& [kind, times] : kinds)
      all.push_back(
          {.name = std::get<0>(kind),
           .bytes = std::get<1>(kind),
           .members = std::get<2>(kind),
           .each_step = static_cast<double>(times.first.size()) / static_cast<double>(traces_[0].steps.size()),
           .moving = median(times.first).value,
           .waiting = median(times.second).value});
    std::stable_sort(all.begin(), all.end(), [](const CollectiveTime& a, const CollectiveTime& b) {
      return a.each_step * a.moving > b.each_step * b.moving;
    });
    return all;
  }

  static double mean(const Run& run, double RankTime::*part, const RankTime* except = nullptr) {
    double sum = 0;
    int count = 0;
    for (const RankTime& rank : run.ranks)
      if (&rank != except) sum += rank.*part, ++count;
    return count ? sum / count : 0;
  }

  /// The rank that arrives last at most of the collectives at which somebody was late, and for which most of the
  /// waiting is; null if there is none.
  static const RankTime* straggler(const Run& run) {
    int late = 0;
    double held = 0;
    const RankTime* most = &run.ranks[0];
    for (const RankTime& rank : run.ranks) {
      late += rank.last, held += rank.held;
      if (rank.last > most->last) most = &rank;
    }
    return 2 * most->last > late && most->held >= kOneRank * held ? most : nullptr;
  }

  static std::string why_late(const Run& run, const RankTime& rank) {
    const double idle = rank.idle - mean(run, &RankTime::idle, &rank),
                 computing = rank.computing - mean(run, &RankTime::computing, &rank);
    if (std::max(idle, computing) < kNoticed * rank.step) return "";
    if (idle > computing)
      return fmt::format(" It is idle {} longer than they are: look at {}.", format_seconds(idle),
                         rank.part.empty() ? "its data loading and its host" : where_idle(rank));
    return fmt::format(" It computes {} longer than they do: look at its batch sizes, its {}.",
                       format_seconds(computing), run.gpu ? "GPU's clock" : "cores");
  }

  static std::string where_idle(const RankTime& rank) {
    return fmt::format("'{}', in which it is idle for {} of a step", rank.part, format_seconds(rank.in_part));
  }

  /// Says where to look if every rank is idle.
  static std::string where_idle(const Run& run) {
    const RankTime& most = *std::max_element(run.ranks.begin(), run.ranks.end(),
                                             [](const RankTime& a, const RankTime& b) { return a.idle < b.idle; });
    if (most.part.empty()) return "data loading, Python and synchronisation";
    return fmt::format("rank {}'s {}", most.rank, where_idle(most));
  }

  static void conclude(Run& run) {
    const double step = mean(run, &RankTime::step), waiting = mean(run, &RankTime::waiting),
                 moving = mean(run, &RankTime::moving), idle = mean(run, &RankTime::idle);
    const auto share = [&](double seconds) {
      return fmt::format("{} of a step ({:.0f}%)", format_seconds(seconds), 100 * seconds / step);
    };
    const RankTime* late = straggler(run);
    const double others = late ? mean(run, &RankTime::waiting, late) : waiting;
    if (std::max({others, moving, idle}) < kNoticed * step) {
      run.limit = "computing";
      run.sentence = "Computing limits this run: nothing else takes 5% of a step.";
    } else if (late && others >= std::max(moving, mean(run, &RankTime::idle, late))) {
      run.limit = "straggler";
      run.sentence = fmt::format(
          "Rank {} holds the others up: it arrives last at {} of {} collectives, and they wait "
          "{}{}.{}",
          late->rank, late->last, run.matched, share(others), run.ranks.size() > 2 ? " on average" : "",
          why_late(run, *late));
    } else if (waiting >= std::max(moving, idle)) {
      run.limit = "imbalance";
      run.sentence = fmt::format(
          "Ranks wait for each other {}, now for one, now for another: look at what differs from "
          "step to step, such as batch sizes.",
          share(waiting));
    } else if (moving >= idle && run.partial) {
      run.limit = "collectives";
      run.sentence = fmt::format("Collectives take {} with nothing to compute.", share(moving));
    } else if (moving >= idle) {
      run.limit = "communication";
      run.sentence =
          fmt::format("Communication limits this run: {} go to collectives with nothing to compute.", share(moving));
    } else {
      run.limit = "idle";
      run.sentence = fmt::format("The host limits this run: in {} there is neither {} nor a collective. Look at {}.",
                                 share(idle), run.gpu ? "a kernel" : "an operation", where_idle(run));
    }
    if (run.partial)
      run.sentence += fmt::format(
          " With {} of {} ranks given, 'moving?' includes waiting for the others. Give the files of all ranks.",
          run.ranks.size(), run.of_ranks);
  }

  const std::vector<RankTrace>& traces_;
  const std::vector<Meeting>& meetings_;
};

double bus_bandwidth(const CollectiveTime& c) {
  return c.bytes > 0 && c.moving > 0 ? bus_factor(c.name, c.members) * c.bytes / c.moving : std::nan("");
}

}  // namespace

Run analyse(const Matched& matched) {
  Run run = Analysis(matched).run();
  run.mismatches = matched.mismatches;
  return run;
}

/// "3 steps of 740 ms each"; where ranks differ noticeably, "3 steps of 740 to 777 ms".
std::string steps_of(const Run& run) {
  const auto [least, most] = std::minmax_element(run.ranks.begin(), run.ranks.end(),
                                                 [](const RankTime& a, const RankTime& b) { return a.step < b.step; });
  const std::string steps = counted(run.steps, "step");
  return most->step > 1.01 * least->step
             ? fmt::format("{} of {} to {}", steps, format_seconds(least->step), format_seconds(most->step))
             : fmt::format("{} of {} each", steps, format_seconds(run.ranks[0].step));
}

std::string format(const Run& run) {
  const int given = static_cast<int>(run.ranks.size());
  const std::string ranks =
      given < run.of_ranks ? fmt::format("{} of {}", given, counted(run.of_ranks, "rank")) : counted(given, "rank");
  const char* moving = run.partial ? "moving?" : "moving";
  std::string out =
      fmt::format("PyTorch, {} of {} on {}: {}\n\n", ranks, run.backend.empty() ? "torch.distributed" : run.backend,
                  run.gpu ? "GPUs" : "the CPU", steps_of(run));
  for (const std::string& mismatch : run.mismatches) out += fmt::format("MISMATCH  {}\n", mismatch);
  if (!run.mismatches.empty()) out += '\n';
  out += fmt::format("{:>4} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}\n", "rank", "computing", moving, "waiting", "idle",
                     "hidden", "last at");
  for (const RankTime& t : run.ranks)
    out += fmt::format("{:>4} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}\n", t.rank, format_seconds(t.computing),
                       format_seconds(t.moving), format_seconds(t.waiting), format_seconds(t.idle),
                       format_seconds(t.hidden), t.last);
  if (!run.collectives.empty())
    out += fmt::format("\n{:<15} {:>10} {:>6} {:>9} {:>10} {:>10} {:>11}\n", "collective", "bytes", "ranks",
                       "each step", moving, "waiting", "busbw");
  for (const CollectiveTime& c : run.collectives)
    out +=
        fmt::format("{:<15} {:>10} {:>6} {:>9.3g} {:>10} {:>10} {:>11}\n", c.name,
                    c.bytes > 0 ? format_bytes(c.bytes) : "?", c.members, c.each_step, format_seconds(c.moving),
                    format_seconds(c.waiting), c.bytes > 0 && !run.partial ? format_bandwidth(bus_bandwidth(c)) : "?");
  return out + "\n" + fmt::format("{}\n", fmt::join(wrapped(run.sentence, 80), "\n"));
}

std::vector<Row> rows(const Run& run) {
  std::vector<Row> all;
  for (const RankTime& t : run.ranks)
    all.emplace_back()
        .set("rank", t.rank)
        .set("step_seconds", t.step)
        .set("computing_seconds", t.computing)
        .set("moving_seconds", t.moving)
        .set("waiting_seconds", t.waiting)
        .set("idle_seconds", t.idle)
        .set("hidden_seconds", t.hidden)
        .set("last_at", t.last)
        .set("of_ranks", run.of_ranks);
  for (const CollectiveTime& c : run.collectives)
    all.emplace_back()
        .set("collective", c.name)
        .set("bytes", c.bytes)
        .set("ranks", c.members)
        .set("per_step", c.each_step)
        .set("moving_seconds", c.moving)
        .set("waiting_seconds", c.waiting)
        .set("busbw_gb_per_s", run.partial ? std::nan("") : bus_bandwidth(c) / 1e9);
  return all;
}

}  // namespace lockstep::pytorch

#include "tools/analyse/pytorch/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "common/error.hpp"
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

/// Every rank is in it from its last arrival to its end.
bool synchronises(const std::string& name) {
  return name == "all_reduce" || name == "all_gather" || name == "reduce_scatter" || name == "all_to_all" ||
         name == "barrier";
}

/// One collective of a group, by rank.
struct Meeting {
  std::map<std::size_t, const Collective*> at;  // by index of the trace
};

class Analysis {
 public:
  explicit Analysis(std::vector<RankTrace> traces) : traces_(std::move(traces)), shift_(traces_.size()) {
    std::sort(traces_.begin(), traces_.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
    check();
    meet();
    align();
  }

  Run run() {
    Run run{.steps = static_cast<int>(traces_[0].steps.size()), .gpu = traces_[0].gpu, .backend = traces_[0].backend};
    run.matched = static_cast<int>(meetings_.size());
    run.mismatches = mismatches_;
    for (std::size_t i = 0; i < traces_.size(); ++i) run.ranks.push_back(time_of(i));
    run.collectives = collectives();
    conclude(run);
    return run;
  }

 private:
  void check() const {
    for (std::size_t i = 1; i < traces_.size(); ++i) {
      const RankTrace &a = traces_[i - 1], &b = traces_[i];
      if (a.rank == b.rank)
        throw Error(Verdict::usage, fmt::format("{} and {} are both of rank {}", a.file, b.file, a.rank));
      if (a.ranks != b.ranks)
        throw Error(Verdict::usage,
                    fmt::format("{} is of a run with {} ranks, {} of one with {}", a.file, a.ranks, b.file, b.ranks));
      if (a.steps.size() != b.steps.size())
        throw Error(Verdict::usage, fmt::format("{} has {}, {} has {}: record the same steps on each rank", a.file,
                                                counted(static_cast<int>(a.steps.size()), "step"), b.file,
                                                counted(static_cast<int>(b.steps.size()), "step")));
    }
  }

  /// A group's collectives in the order of each rank; they meet as far as all agree.
  void meet() {
    std::map<std::string, std::map<std::size_t, std::vector<const Collective*>>> groups;
    for (std::size_t i = 0; i < traces_.size(); ++i)
      for (const Collective& c : traces_[i].collectives)
        if (synchronises(c.name)) groups[c.group][i].push_back(&c);
    for (const auto& [group, by_rank] : groups) meet(group, by_rank);
  }

  void meet(const std::string& group, const std::map<std::size_t, std::vector<const Collective*>>& by_rank) {
    std::size_t most = 0;
    for (const auto& [i, all] : by_rank) most = std::max(most, all.size());
    for (std::size_t k = 0; k < most; ++k) {
      Meeting meeting;
      for (const auto& [i, all] : by_rank)
        if (k < all.size()) meeting.at[i] = all[k];
      const auto& [first, expected] = *meeting.at.begin();
      for (const auto& [i, all] : by_rank) {
        const auto there = meeting.at.find(i);
        if (there == meeting.at.end())
          return add_mismatch(
              group, k,
              fmt::format("rank {} runs {}, rank {} does not", traces_[first].rank, text(*expected), traces_[i].rank));
        const Collective& c = *there->second;
        if (c.name != expected->name || c.bytes != expected->bytes)
          return add_mismatch(group, k,
                              fmt::format("rank {} runs {}, rank {} {}", traces_[first].rank, text(*expected),
                                          traces_[i].rank, text(c)));
      }
      if (meeting.at.size() > 1) meetings_.push_back(std::move(meeting));
    }
  }

  static std::string text(const Collective& c) {
    return c.bytes > 0 ? fmt::format("{} of {}", c.name, format_bytes(c.bytes)) : c.name;
  }

  void add_mismatch(const std::string& group, std::size_t k, const std::string& what) {
    mismatches_.push_back(
        fmt::format("collective {} {}: {}", k + 1, group.empty() ? "of the run" : "of process group " + group, what));
  }

  /// Ranks leave a collective together, so its ends show how far their clocks differ. A rank that never meets the first
  /// one is aligned by one that does.
  void align() {
    std::set<std::size_t> done{0};
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < traces_.size(); ++i) {
        if (done.contains(i)) continue;
        std::vector<double> gaps;
        for (const Meeting& m : meetings_) {
          const auto mine = m.at.find(i);
          const auto other =
              std::find_if(m.at.begin(), m.at.end(), [&](auto& one) { return done.contains(one.first); });
          if (mine != m.at.end() && other != m.at.end())
            gaps.push_back(mine->second->when.end - other->second->when.end + shift_[other->first]);
        }
        if (gaps.empty()) continue;
        shift_[i] = median(std::move(gaps)).value;
        done.insert(i), more = true;
      }
    }
  }

  /// When rank i of a meeting arrived, on the first rank's clock.
  double arrival(const Meeting& m, std::size_t i) const { return m.at.at(i)->when.begin - shift_[i]; }
  double last_arrival(const Meeting& m) const {
    double last = -INFINITY;
    for (const auto& [i, c] : m.at) last = std::max(last, arrival(m, i));
    return last;
  }
  double first_arrival(const Meeting& m) const {
    double first = INFINITY;
    for (const auto& [i, c] : m.at) first = std::min(first, arrival(m, i));
    return first;
  }

  RankTime time_of(std::size_t i) const {
    const RankTrace& trace = traces_[i];
    const double steps = static_cast<double>(trace.steps.size());
    const std::vector<Interval> window{{trace.steps.front().begin, trace.steps.back().end}};
    const std::vector<Interval> computing = common(trace.computing, window);
    std::vector<Interval> inside, waiting;
    for (const Collective& c : trace.collectives) inside.push_back(c.when);
    int last = 0;
    const double step = length(window) / steps;
    for (const Meeting& m : meetings_) {
      const auto mine = m.at.find(i);
      if (mine == m.at.end()) continue;
      const Interval& when = mine->second->when;
      waiting.push_back({when.begin, std::clamp(last_arrival(m) + shift_[i], when.begin, when.end)});
      last += last_arrival(m) == arrival(m, i) && last_arrival(m) - first_arrival(m) > kNoticed * step;
    }
    inside = common(joined(inside), window);
    waiting = common(joined(waiting), window);
    RankTime time{.rank = trace.rank, .step = step, .computing = length(computing) / steps, .last = last};
    time.hidden = length(common(inside, computing)) / steps;
    time.waiting = (length(waiting) - length(common(waiting, computing))) / steps;
    time.moving = length(inside) / steps - time.hidden - time.waiting;
    time.idle = time.step - time.computing - time.moving - time.waiting;
    return time;
  }

  std::vector<CollectiveTime> collectives() const {
    std::map<std::tuple<std::string, double, int>, std::pair<std::vector<double>, std::vector<double>>> kinds;
    for (const Meeting& m : meetings_) {
      const Collective& c = *m.at.begin()->second;
      const double last = last_arrival(m);
      double end = last;
      for (const auto& [i, one] : m.at) end = std::max(end, one->when.end - shift_[i]);
      auto& [moving, waiting] = kinds[{c.name, c.bytes, c.members ? c.members : static_cast<int>(m.at.size())}];
      moving.push_back(end - last);
      waiting.push_back(last - first_arrival(m));
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

  /// The rank that arrives last at most of the collectives at which somebody was late; null if there is none.
  static const RankTime* straggler(const Run& run) {
    int late = 0;
    const RankTime* most = &run.ranks[0];
    for (const RankTime& rank : run.ranks) {
      late += rank.last;
      if (rank.last > most->last) most = &rank;
    }
    return 2 * most->last > late ? most : nullptr;
  }

  static std::string why_late(const Run& run, const RankTime& rank) {
    const double idle = rank.idle - mean(run, &RankTime::idle, &rank),
                 computing = rank.computing - mean(run, &RankTime::computing, &rank);
    if (std::max(idle, computing) < kNoticed * rank.step) return "";
    if (idle > computing)
      return fmt::format(" It is idle {} longer than they are: look at its data loading and its host.",
                         format_seconds(idle));
    return fmt::format(" It computes {} longer than they do: look at its batch sizes, its {}.",
                       format_seconds(computing), run.gpu ? "GPU's clock" : "cores");
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
          "{}.{}",
          late->rank, late->last, run.matched, share(others), why_late(run, *late));
    } else if (waiting >= std::max(moving, idle)) {
      run.limit = "imbalance";
      run.sentence = fmt::format(
          "Ranks wait for each other {}, now for one, now for another: look at what differs from "
          "step to step, such as batch sizes.",
          share(waiting));
    } else if (moving >= idle) {
      run.limit = "communication";
      run.sentence =
          fmt::format("Communication limits this run: {} go to collectives with nothing to compute.", share(moving));
    } else {
      run.limit = "idle";
      run.sentence = fmt::format(
          "The host limits this run: in {} there is neither {} nor a collective. Look at data "
          "loading, Python and synchronisation.",
          share(idle), run.gpu ? "a kernel" : "an operation");
    }
  }

  std::vector<RankTrace> traces_;
  std::vector<double> shift_;  // of each clock against the first rank's, in seconds
  std::vector<Meeting> meetings_;
  std::vector<std::string> mismatches_;
};

double bus_bandwidth(const CollectiveTime& c) {
  return c.bytes > 0 && c.moving > 0 ? bus_factor(c.name, c.members) * c.bytes / c.moving : std::nan("");
}

}  // namespace

Run analyse(std::vector<RankTrace> traces) { return Analysis(std::move(traces)).run(); }

std::string format(const Run& run) {
  std::string out =
      fmt::format("PyTorch, {} of {} on {}: {} of {} each\n\n", counted(static_cast<int>(run.ranks.size()), "rank"),
                  run.backend.empty() ? "torch.distributed" : run.backend, run.gpu ? "GPUs" : "the CPU",
                  counted(run.steps, "step"), format_seconds(run.ranks[0].step));
  for (const std::string& mismatch : run.mismatches) out += fmt::format("MISMATCH  {}\n", mismatch);
  if (!run.mismatches.empty()) out += '\n';
  out += fmt::format("{:>4} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}\n", "rank", "computing", "moving", "waiting",
                     "idle", "hidden", "last at");
  for (const RankTime& t : run.ranks)
    out += fmt::format("{:>4} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}\n", t.rank, format_seconds(t.computing),
                       format_seconds(t.moving), format_seconds(t.waiting), format_seconds(t.idle),
                       format_seconds(t.hidden), t.last);
  if (!run.collectives.empty())
    out += fmt::format("\n{:<15} {:>10} {:>6} {:>9} {:>10} {:>10} {:>11}\n", "collective", "bytes", "ranks",
                       "each step", "moving", "waiting", "busbw");
  for (const CollectiveTime& c : run.collectives)
    out += fmt::format("{:<15} {:>10} {:>6} {:>9.3g} {:>10} {:>10} {:>11}\n", c.name,
                       c.bytes > 0 ? format_bytes(c.bytes) : "?", c.members, c.each_step, format_seconds(c.moving),
                       format_seconds(c.waiting), c.bytes > 0 ? format_bandwidth(bus_bandwidth(c)) : "?");
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
        .set("last_at", t.last);
  for (const CollectiveTime& c : run.collectives)
    all.emplace_back()
        .set("collective", c.name)
        .set("bytes", c.bytes)
        .set("ranks", c.members)
        .set("per_step", c.each_step)
        .set("moving_seconds", c.moving)
        .set("waiting_seconds", c.waiting)
        .set("busbw_gb_per_s", bus_bandwidth(c) / 1e9);
  return all;
}

}  // namespace lockstep::pytorch

#include "tools/analyse/pytorch/match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "common/error.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::pytorch {
namespace {

/// Every rank is in it from its last arrival to its end.
bool synchronises(const std::string& name) {
  return name == "all_reduce" || name == "all_gather" || name == "reduce_scatter" || name == "all_to_all" ||
         name == "barrier";
}

/// Seconds between what two files recorded; 0 or less: it overlaps. Times are of the hosts' clocks.
double gap(const RankTrace& a, const RankTrace& b) {
  const double ahead = b.clock - a.clock;
  return std::max(b.steps.front().begin + ahead - a.steps.back().end,
                  a.steps.front().begin - (b.steps.back().end + ahead));
}

/// Two hosts' clocks differ by less, even without NTP for a while.
constexpr double kClocksDiffer = 60;

void check_same_run(const RankTrace& a, const RankTrace& b) {
  if (a.backend != b.backend)
    throw Error(Verdict::usage,
                fmt::format("{} is of a run over {}, {} of one over {}", a.file, a.backend, b.file, b.backend));
  if (a.first_step != b.first_step && a.first_step >= 0 && b.first_step >= 0)
    throw Error(Verdict::usage,
                fmt::format("{} begins with step {}, {} with step {}: record the same steps on each rank", a.file,
                            a.first_step, b.file, b.first_step));
  const double apart = gap(a, b);
  const bool same_host = !a.host.empty() && a.host == b.host;
  if (apart > (same_host ? 0 : kClocksDiffer))
    throw Error(Verdict::usage, fmt::format("{} and {} are not of the same run: {} lie between them", a.file, b.file,
                                            format_seconds(apart)));
}

void check(const std::vector<RankTrace>& traces) {
  for (std::size_t i = 1; i < traces.size(); ++i) {
    const RankTrace &a = traces[i - 1], &b = traces[i];
    if (a.rank == b.rank)
      throw Error(Verdict::usage, fmt::format("{} and {} are both of rank {}", a.file, b.file, a.rank));
    if (a.ranks != b.ranks)
      throw Error(Verdict::usage,
                  fmt::format("{} is of a run with {} ranks, {} of one with {}", a.file, a.ranks, b.file, b.ranks));
    if (a.steps.size() != b.steps.size())
      throw Error(Verdict::usage, fmt::format("{} has {}, {} has {}: record the same steps on each rank", a.file,
                                              counted(static_cast<int>(a.steps.size()), "step"), b.file,
                                              counted(static_cast<int>(b.steps.size()), "step")));
    check_same_run(a, b);
  }
}

class Matcher {
 public:
  explicit Matcher(std::vector<RankTrace> traces) {
    all_.ranks = std::move(traces);
    std::sort(all_.ranks.begin(), all_.ranks.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
    check(all_.ranks);
  }

  Matched match() {
    meet();
    align();
    return std::move(all_);
  }

 private:
  /// A group's collectives in the order of each rank; they meet as far as all agree.
  void meet() {
    std::map<std::string, std::map<std::size_t, std::vector<const Collective*>>> groups;
    for (std::size_t i = 0; i < all_.ranks.size(); ++i)
      for (const Collective& c : all_.ranks[i].collectives)
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
          return add_mismatch(group, k,
                              fmt::format("rank {} runs {}, rank {} does not", all_.ranks[first].rank, text(*expected),
                                          all_.ranks[i].rank));
        const Collective& c = *there->second;
        if (c.name != expected->name || c.bytes != expected->bytes)
          return add_mismatch(group, k,
                              fmt::format("rank {} runs {}, rank {} {}", all_.ranks[first].rank, text(*expected),
                                          all_.ranks[i].rank, text(c)));
      }
      if (meeting.at.size() > 1) all_.meetings.push_back(std::move(meeting));
    }
  }

  static std::string text(const Collective& c) {
    return c.bytes > 0 ? fmt::format("{} of {}", c.name, format_bytes(c.bytes)) : c.name;
  }

  void add_mismatch(const std::string& group, std::size_t k, const std::string& what) {
    all_.mismatches.push_back(
        fmt::format("collective {} {}: {}", k + 1, group.empty() ? "of the run" : "of process group " + group, what));
  }

  /// Ranks leave a collective together, so its ends show how far their clocks differ. A rank that never meets the first
  /// one is aligned by one that does.
  void align() {
    std::set<std::size_t> done{0};
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < all_.ranks.size(); ++i) {
        if (done.contains(i)) continue;
        std::vector<double> gaps;
        for (const Meeting& m : all_.meetings) {
          const auto mine = m.at.find(i);
          const auto other =
              std::find_if(m.at.begin(), m.at.end(), [&](auto& one) { return done.contains(one.first); });
          if (mine != m.at.end() && other != m.at.end())
            gaps.push_back(mine->second->when.end - other->second->when.end);
        }
        if (gaps.empty()) continue;
        move(all_.ranks[i], median(std::move(gaps)).value);
        done.insert(i), more = true;
      }
    }
  }

  /// To a clock that is `ahead` seconds behind its own.
  static void move(RankTrace& trace, double ahead) {
    const auto to = [ahead](Interval& when) { when.begin -= ahead, when.end -= ahead; };
    for (Interval& step : trace.steps) to(step);
    for (Operation& o : trace.operations) to(o.when);
    for (Collective& c : trace.collectives) to(c.when);
  }

  Matched all_;
};

}  // namespace

double Meeting::first_arrival() const {
  double first = INFINITY;
  for (const auto& [i, c] : at) first = std::min(first, c->when.begin);
  return first;
}
double Meeting::last_arrival() const {
  double last = -INFINITY;
  for (const auto& [i, c] : at) last = std::max(last, c->when.begin);
  return last;
}
double Meeting::end() const {
  double end = last_arrival();
  for (const auto& [i, c] : at) end = std::max(end, c->when.end);
  return end;
}

Matched match(std::vector<RankTrace> traces) { return Matcher(std::move(traces)).match(); }

}  // namespace lockstep::pytorch

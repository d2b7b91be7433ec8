#include "tools/analyse/pytorch/elsewhere.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "common/analysis/graph.hpp"
#include "common/analysis/replay.hpp"
#include "common/runtime/machine/library.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/columns.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "tools/analyse/pytorch/run.hpp"
#include "tools/analyse/pytorch/timeline.hpp"

namespace lockstep::pytorch {
namespace {

/// Seconds of a collective with `bytes` (the whole array) among `ranks` that are `apart` from each other. A broadcast
/// and a reduction move the array once, as a gather does.
double price(const Machine& machine, const std::string& name, double bytes, int ranks, int apart) {
  if (ranks < 2) return 0;
  if (name == "barrier") return library_all_reduce_seconds(machine, ranks, 4, apart);
  if (name == "all_reduce") return library_all_reduce_seconds(machine, ranks, bytes, apart);
  if (name == "send_receive") return machine.message_seconds(machine.level_between(0, apart), bytes);
  return library_gather_seconds(machine, ranks, bytes, apart);
}

/// A speed at which computing takes no time.
constexpr double kEndless = 1e12;
/// FLOP/s, in its fastest type, that hardly a CPU reaches.
constexpr double kFasterThanCpus = 1e13;

class Pricer {
 public:
  Pricer(const Matched& matched, const Machine& machine, const There& there)
      : matched_(matched), machine_(machine), there_(there) {
    for (const Meeting& m : matched.meetings) {
      const int first = matched.ranks[m.at.begin()->first].rank, last = matched.ranks[m.at.rbegin()->first].rank;
      const int apart = std::max(1, (last - first) / std::max(1, static_cast<int>(m.at.size()) - 1));
      for (const auto& [i, c] : m.at) met_[c] = {apart, m.end() - m.last_arrival()};
    }
  }

  /// Seconds of a step, replayed; `change`: there.
  double step(Needed needed, bool change) {
    const Timeline timeline = pytorch::timeline(matched_, needed);
    analysis::Graph graph = analysis::make_graph(timeline.trace, "step");
    if (change) {
      kinds_.clear();
      for (analysis::Activity& work : graph.works)
        if (work.kind == analysis::Activity::Kind::arithmetic) work.seconds /= there_.speed;
      for (analysis::TransferBatch& batch : graph.batches)
        if (const Collective* c = timeline.of_event[static_cast<std::size_t>(batch.event)])
          reprice(batch, *c, timeline.members[static_cast<std::size_t>(batch.event)]);
    }
    recorded_ = graph.recorded / graph.steps;
    steps_ = graph.steps;
    first_step_ = graph.first_step;
    return analysis::replay(graph).seconds / graph.steps;
  }
  double recorded() const { return recorded_; }
  int steps() const { return steps_; }
  int first_step() const { return first_step_; }

  std::vector<Repriced> collectives() const {
    std::vector<Repriced> all;
    for (const auto& [kind, times] : kinds_)
      all.push_back(
          {.name = std::get<0>(kind),
           .bytes = std::get<1>(kind),
           .ranks = std::get<2>(kind),
           .each_step = static_cast<double>(times.here.size()) / steps_ / static_cast<double>(matched_.ranks.size()),
           .here = median(times.here).value,
           .there = median(times.there).value});
    std::stable_sort(all.begin(), all.end(), [](const Repriced& a, const Repriced& b) {
      return a.each_step * a.there > b.each_step * b.there;
    });
    return all;
  }

 private:
  struct Met {
    int apart = 1;  // ranks between neighbours of the group
    double seconds = 0;
  };
  struct Times {
    std::vector<double> here, there;
  };

  void reprice(analysis::TransferBatch& batch, const Collective& c, int members) {
    const int all = matched_.ranks[0].ranks;
    if (members == 0) members = all;
    const int ranks = there_.ranks > 0 && members == all ? there_.ranks : members;
    const auto found = met_.find(&c);
    const Met met = found == met_.end() ? Met{1, batch.delay} : found->second;
    if (c.bytes > 0 || c.name == "barrier") batch.delay = price(machine_, c.name, c.bytes, ranks, met.apart);
    Times& times = kinds_[{c.name, c.bytes, ranks}];
    times.here.push_back(met.seconds);
    times.there.push_back(batch.delay);
  }

  const Matched& matched_;
  const Machine& machine_;
  const There& there_;
  std::map<const Collective*, Met> met_;
  std::map<std::tuple<std::string, double, int>, Times> kinds_;
  double recorded_ = 0;
  int steps_ = 1, first_step_ = 0;
};

}  // namespace

Elsewhere elsewhere(const Matched& matched, const Machine& machine, const There& there) {
  Elsewhere result{.machine = machine.name, .given = there};
  result.ranks = there.ranks > 0 ? there.ranks : matched.ranks[0].ranks;
  result.not_given = matched.ranks[0].ranks - static_cast<int>(matched.ranks.size());
  machine.level_between(0, result.ranks - 1);  // it has so many
  Pricer pricer(matched, machine, there);
  result.replayed = pricer.step(Needed::late, false);
  result.recorded = pricer.recorded();
  result.first_step = pricer.first_step();
  result.steps_in_run = pricer.first_step() + pricer.steps();
  result.at_most = pricer.step(Needed::at_once, true);
  result.seconds = pricer.step(Needed::late, true);
  There endless = there;
  endless.speed = kEndless;
  result.floor = Pricer(matched, machine, endless).step(Needed::late, true);
  const auto& peaks = machine.peak_flop_per_second;
  result.other_device = !matched.ranks[0].gpu && *std::max_element(peaks.begin(), peaks.end()) > kFasterThanCpus;
  result.at_most = std::max(result.at_most, result.seconds);
  result.collectives = pricer.collectives();
  return result;
}

std::string format(const Elsewhere& e) {
  std::string out = fmt::format("\n{:<15} {:>10} {:>6} {:>9} {:>10} {:>10}\n", "on " + e.machine, "bytes", "ranks",
                                "each step", "here", "there");
  bool unknown = false;
  for (const Repriced& c : e.collectives) {
    out +=
        fmt::format("{:<15} {:>10} {:>6} {:>9.3g} {:>10} {:>10}\n", c.name, c.bytes > 0 ? format_bytes(c.bytes) : "?",
                    c.ranks, c.each_step, format_seconds(c.here), format_seconds(c.there));
    unknown = unknown || (c.bytes == 0 && c.name != "barrier");
  }
  std::string text = fmt::format("On {} with {}, a step would take {} instead of {}", e.machine,
                                 counted(e.ranks, "rank"), format_seconds(e.seconds), format_seconds(e.recorded));
  text += e.first_step > 0 ? fmt::format(" (without the first of {} steps, as in this table).", e.steps_in_run) : ".";
  if (e.at_most > (1 + kNoticed) * e.seconds)
    text += fmt::format(" It would take {} if each operation needs the collectives that ended before it.",
                        format_seconds(e.at_most));
  text += e.given.speed == 1 ? " Assumed: a rank computes as fast as here,"
                             : fmt::format(" Assumed: a rank computes {:g} times as fast,", e.given.speed);
  text += " its host takes as long as here, and a collective takes the time of that machine's library.";
  if (e.not_given > 0) text += fmt::format(" The {} not given may be later than these.", counted(e.not_given, "rank"));
  if (e.floor > 0.2 * e.seconds)
    text += fmt::format(" At any --speed, {} remain: the host's time and the collectives.", format_seconds(e.floor));
  if (e.other_device)
    text +=
        " A CPU's trace does not tell how fast a GPU is: for the model on GPUs, ask ./lab plan (docs/use/pytorch.md).";
  if (unknown) text += " The trace does not say how large some collectives are: they take as long as here.";
  const double error = std::abs(e.replayed - e.recorded);
  const bool drowned = error > std::abs(e.seconds - e.recorded);
  if (drowned || error > kNoticed * e.recorded)
    text += fmt::format(" The same replay without a change gives {}, so it errs by {}{}.", format_seconds(e.replayed),
                        format_seconds(error), drowned ? ", more than the machines differ" : "");
  return out + fmt::format("\n{}\n", fmt::join(wrapped(text, 80), "\n"));
}

std::vector<Row> rows(const Elsewhere& e) {
  std::vector<Row> all;
  all.emplace_back()
      .set("machine", e.machine)
      .set("ranks", e.ranks)
      .set("speed", e.given.speed)
      .set("recorded_seconds", e.recorded)
      .set("replayed_seconds", e.replayed)
      .set("step_seconds", e.seconds)
      .set("at_most_seconds", e.at_most);
  for (const Repriced& c : e.collectives)
    all.emplace_back()
        .set("machine", e.machine)
        .set("collective", c.name)
        .set("bytes", c.bytes)
        .set("ranks", c.ranks)
        .set("per_step", c.each_step)
        .set("here_seconds", c.here)
        .set("there_seconds", c.there);
  return all;
}

}  // namespace lockstep::pytorch

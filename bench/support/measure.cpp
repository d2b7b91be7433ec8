#include "bench/support/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "bench/support/link_acts.hpp"
#include "common/arithmetic.hpp"
#include "common/devices/random_key.hpp"

namespace lockstep::bench {

bool time_is_virtual() { return std::string_view(backend_name()) == "sim"; }
bool on_mpi() { return std::string_view(backend_name()) == "mpi"; }
bool on_gpu() { return shares_memory() || std::string_view(backend_name()) == "nccl"; }
bool shares_memory() { return std::string_view(backend_name()) == "cuda"; }
bool on_own_cores(const RunOptions& options) { return on_mpi() && !options.emulate; }

double slowest(const Outcome& outcome, std::size_t index) {
  double seconds = 0;
  for (const Values& values : outcome.values) seconds = std::max(seconds, values[index]);
  return seconds;
}

namespace {

/// Seconds of one act on each rank, after a barrier.
double timed(Rank me, const std::function<void()>& act, Slice token, Slice received) {
  barrier(me, token, received);
  double begin = me.now();
  act();
  return me.now() - begin;
}

/// Seconds and traffic of one act on one rank: the difference of the ledger's values after and before it, so that
/// preparation does not count.
struct Act {
  double seconds = 0;
  Traffic traffic;
};
Act one_act(Rank me, const Prepared& prepared) {
  const Traffic before = ledger_of(me).traffic;
  const double begin = me.now();
  prepared.act();
  const double seconds = me.now() - begin;
  const Traffic after = ledger_of(me).traffic;
  return {seconds,
          {.messages_sent = after.messages_sent - before.messages_sent,
           .bytes_sent = after.bytes_sent - before.bytes_sent}};
}
Values values_of(const Act& act, bool right) {
  return {act.seconds, static_cast<double>(act.traffic.messages_sent), static_cast<double>(act.traffic.bytes_sent),
          right ? 1.0 : 0.0};
}

void count(const Outcome& outcome, Measurement& measurement) {
  if (!measurement.counted) return;
  measurement.messages = measurement.bytes_sent = 0;
  for (const Values& values : outcome.values) {
    measurement.messages += static_cast<std::uint64_t>(values[1]);
    measurement.bytes_sent += static_cast<std::uint64_t>(values[2]);
  }
  measurement.bytes_sent_per_rank_max = static_cast<std::uint64_t>(slowest(outcome, 2));
}

/// Runs one act with values that can be checked. Returns the duration of another one: during the first a GPU's
/// libraries may load code for seconds, which would leave time for few samples.
double verify(const RunOptions& options, const Contender& contender, Measurement& measurement) {
  Outcome outcome = run(options, [&](Rank me) -> Values {
    Prepared prepared = contender.prepare(me, Purpose::verify);
    const Act act = one_act(me, prepared);
    Values values = values_of(act, !prepared.right || prepared.right());
    values.push_back(prepared.right ? 1 : 0);
    values.push_back(act.seconds);
    if (time_is_virtual()) return values;
    const Slice token = me.allocate(1, DType::f32, Category::buffer);
    const Slice received = me.allocate(1, DType::f32, Category::buffer);
    fill(me, token, 0);
    values.back() = timed(me, prepared.act, token, received);
    return values;
  });
  outcome.check();
  for (std::size_t rank = 0; rank < outcome.values.size(); ++rank)
    if (outcome.values[rank][3] != 1)
      throw Error(Verdict::fail, fmt::format("{}: rank {} has a wrong result", contender.name, rank));
  measurement.verified = outcome.values[0][4] == 1;
  count(outcome, measurement);
  return slowest(outcome, 5);
}

/// Runs one act in virtual time, which suffices. The run's wall-clock time is the time of that act.
void time_virtually(const RunOptions& options, const Contender& contender, Measurement& measurement) {
  Outcome outcome = run(options, [&](Rank me) -> Values {
    Slice token = me.allocate(1, DType::f32, Category::buffer), received = me.allocate(1, DType::f32, Category::buffer);
    fill(me, token, 0);
    Prepared prepared = contender.prepare(me, Purpose::time);
    barrier(me, token, received);
    return values_of(one_act(me, prepared), true);
  });
  outcome.check();
  measurement.seconds = median({slowest(outcome, 0)});
  measurement.wall_seconds = outcome.wall_seconds;
  count(outcome, measurement);
}

/// Order of the contenders in a turn: random, the same on every rank and different in each turn, so that no contender
/// always follows the same one.
std::vector<std::size_t> order_of_turn(std::size_t contenders, int turn) {
  std::vector<std::size_t> order(contenders);
  for (std::size_t i = 0; i < contenders; ++i) {
    const std::size_t place = mix(static_cast<std::uint64_t>(turn) << 32 | i) % (i + 1);
    order[i] = order[place];
    order[place] = i;
  }
  return order;
}

/// The probes, timed in the same way as by ./lab calibrate.
class ProbeActs {
 public:
  explicit ProbeActs(Rank me)
      : acts_(me, kElements), exchange_(acts_.exchanges(kElements)), addition_(acts_.additions(kElements)) {}
  Values exchange() { return acts_.samples(exchange_); }
  Values addition() { return acts_.samples(addition_, LinkActs::repeats_of(Probes::kBytes)); }

 private:
  static constexpr auto kElements = static_cast<std::size_t>(Probes::kBytes) / 4;
  LinkActs acts_;
  Timed exchange_, addition_;
};

/// Returns the values at these places; omits places beyond the end.
std::vector<double> at(const std::vector<double>& values, const std::vector<std::size_t>& places) {
  std::vector<double> chosen;
  for (const std::size_t place : places)
    if (place < values.size()) chosen.push_back(values[place]);
  return chosen;
}

/// Times all contenders in turn, sample by sample, in one run, so that disturbances affect all of them.
void time_really(const RunOptions& options, const std::vector<Contender>& contenders, const Plan& plan, int samples,
                 const std::vector<int>& acts_before, std::vector<Measurement>& measurements) {
  std::vector<std::size_t> here;
  for (std::size_t c = 0; c < contenders.size(); ++c)
    if (!contenders[c].apart) here.push_back(c);
  const bool probed = on_own_cores(options);
  Outcome outcome = run(options, [&](Rank me) -> Values {
    Slice token = me.allocate(1, DType::f32, Category::buffer), received = me.allocate(1, DType::f32, Category::buffer);
    upload(me, token, std::vector<float>{0});
    std::vector<Prepared> prepared;
    for (const std::size_t c : here) prepared.push_back(contenders[c].prepare(me, Purpose::time));
    for (int i = 0; i < plan.warm_up; ++i)
      for (const Prepared& contender : prepared) timed(me, contender.act, token, received);
    ProbeActs probes(me);
    Values seconds(static_cast<std::size_t>(samples) * prepared.size());
    for (int i = 0; i < samples; ++i) {
      if (probed)
        for (const Values& probe : {probes.exchange(), probes.addition()})
          seconds.insert(seconds.end(), probe.begin(), probe.end());
      for (const std::size_t c : order_of_turn(prepared.size(), i)) {
        for (int act = 0; act < acts_before[here[c]]; ++act) prepared[c].act();
        seconds[static_cast<std::size_t>(i) * prepared.size() + c] = timed(me, prepared[c].act, token, received);
      }
    }
    return seconds;
  });
  outcome.check();
  std::vector<double> exchanges, additions;
  for (std::size_t i = static_cast<std::size_t>(samples) * here.size(); i < outcome.values[0].size();
       i += 2 * kLinkSamples) {
    if (outcome.values.size() > 1) exchanges.push_back(median_of_slowest(outcome, i));
    additions.push_back(median_of_slowest(outcome, i + kLinkSamples));
  }
  std::vector<std::size_t> turns(static_cast<std::size_t>(samples));
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  if (probed) turns = turns_that_count(plan, exchanges, additions);
  Probes probes = probes_of(at(exchanges, turns), at(additions, turns));
  probes.turns_left_out = samples - static_cast<int>(turns.size());
  for (Measurement& measurement : measurements) measurement.probes = probes;
  for (std::size_t c = 0; c < here.size(); ++c) {
    Measurement& measurement = measurements[here[c]];
    for (const std::size_t turn : turns) measurement.samples.push_back(slowest(outcome, turn * here.size() + c));
    measurement.seconds = median(measurement.samples);
  }
}

/// Times a contender in its own processes; each sample is the slowest rank's.
void time_apart(const RunOptions& options, const Contender& contender, const Plan& plan, Measurement& measurement) {
  Outcome outcome = run(options, [&](Rank me) -> Values {
    const Apart apart = contender.apart(me, plan);
    if (!apart.right) throw Error(Verdict::fail, contender.name + " has a wrong result");  // the run adds the rank
    Values values{apart.waiting_cpu_share};
    values.insert(values.end(), apart.seconds.begin(), apart.seconds.end());
    return values;
  });
  outcome.check();
  measurement.verified = measurement.apart = true;
  measurement.waiting_cpu_share = slowest(outcome, 0);
  for (std::size_t i = 1; i < outcome.values[0].size(); ++i) measurement.samples.push_back(slowest(outcome, i));
  measurement.seconds = median(measurement.samples);
}

}  // namespace

int acts_before_sample(double seconds) {
  constexpr double kLong = 0.02;
  constexpr int kMost = 4;
  return seconds * kMost < kLong ? kMost : std::max(1, static_cast<int>(kLong / seconds));
}

std::vector<std::size_t> turns_that_count(const Plan& plan, const std::vector<double>& exchanges,
                                          const std::vector<double>& additions) {
  const auto same = [](double seconds, double known) {
    return known <= 0 || std::abs(seconds / known - 1) <= Probes::kSame;
  };
  std::vector<std::size_t> all(additions.size()), counted;
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const std::size_t turn : all)
    if (same(additions[turn], plan.addition) && (exchanges.empty() || same(exchanges[turn], plan.exchange)))
      counted.push_back(turn);
  return counted.size() < 5 ? all : counted;
}

Probes probes_of(const std::vector<double>& exchanges, const std::vector<double>& additions) {
  const auto drift_of = [](const std::vector<double>& all) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    if (middle == all.begin()) return 0.0;
    return median({middle, all.end()}).value / median({all.begin(), middle}).value - 1;
  };
  const double of_exchanges = drift_of(exchanges), of_additions = drift_of(additions);
  return {.exchange = exchanges.empty() ? 0 : median(exchanges).value,
          .addition = additions.empty() ? 0 : median(additions).value,
          .drift = std::abs(of_exchanges) > std::abs(of_additions) ? of_exchanges : of_additions};
}

/// Pairs at distances 1, 2, 4, … while they divide p; then, among the remaining ranks (an odd number), dissemination:
/// in round k each rank sends to the one 2^k further. On one node, and on nodes whose size is a power of two, all ranks
/// do the same in every round. In virtual time they leave together, so no rank's head start counts as time of the next
/// operation. On nodes of six, for example, some messages of a round stay in their node and others leave it, so ranks
/// leave at different times.
void barrier(Rank me, Slice token, Slice received) {
  int stride = 1;
  for (; me.size() / stride % 2 == 0; stride *= 2) {
    const int partner = me.rank() ^ stride;
    me.exchange({send(partner, token), receive(partner, received)});
  }
  const int left = me.size() / stride, place = me.rank() / stride, offset = me.rank() % stride;
  for (int distance = 1; distance < left; distance *= 2) {
    const int to = (place + distance) % left, from = (place + left - distance) % left;
    me.exchange({send(to * stride + offset, token), receive(from * stride + offset, received)});
  }
}

std::vector<Measurement> measure(const RunOptions& options, const std::vector<Contender>& contenders,
                                 const Plan& plan) {
  std::vector<Measurement> measurements;
  double round = 0;              // seconds of one sample of each contender; equal on all processes, so all take the
                                 // same number of samples
  std::vector<int> acts_before;  // by contender
  for (const Contender& contender : contenders) {
    measurements.push_back(
        {.contender = contender.name, .predicted_seconds = contender.predicted_seconds, .counted = contender.counted});
    acts_before.push_back(0);
    if (contender.apart) continue;
    if (!options.phantom) {
      const double seconds = verify(options, contender, measurements.back());
      if (on_own_cores(options)) acts_before.back() = acts_before_sample(seconds);
      round += (1 + acts_before.back()) * seconds;
    }
    if (time_is_virtual()) time_virtually(options, contender, measurements.back());
  }
  if (time_is_virtual()) return measurements;
  int affordable =
      round > 0 ? static_cast<int>(std::min(1e6, plan.budget_seconds / round)) - plan.warm_up : plan.samples;
  time_really(options, contenders, plan, std::min(plan.samples, std::max(affordable, 5)), acts_before, measurements);
  for (std::size_t c = 0; c < contenders.size(); ++c)
    if (contenders[c].apart) time_apart(options, contenders[c], plan, measurements[c]);
  return measurements;
}

}  // namespace lockstep::bench

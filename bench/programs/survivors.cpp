// When a rank dies (25.8): a snapshot in the neighbour's memory, and the new shards of those that are left. Bytes and
// times, by formula and in a run.
//
//   ./lab bench survivors --machine dgx-h100 --ranks 64 --parameters 8e9 --phantom
//   ./lab bench survivors --backend mpi --ranks 4 --dead 0,1,3
//
// The state is three arrays in fp32: the weights, m and v. Results are checked element by element before they are
// timed.
#include "labs/week25_3d/survivors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/programs/collective_prices.hpp"
#include "bench/support/bench.hpp"
#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/support/text/numbers.hpp"

namespace lockstep::bench {
namespace {

using week25::Snapshot;

constexpr std::size_t kArrays = 3;
constexpr double kBytes = 4 * kArrays;  // of a parameter

struct SurvivorsOptions {
  double parameters = 1e6;
  std::vector<std::string> dead;
};

/// p ranks with n parameters, of which one dies.
struct Death {
  std::size_t parameters = 1;
  int ranks = 2, dead = 0;

  double state_bytes() const { return kBytes * static_cast<double>(parameters); }
  std::vector<int> was() const {
    std::vector<int> living;
    for (int r = 0; r < ranks; ++r)
      if (r != dead) living.push_back(r);
    return living;
  }
  /// The share of the array that rank r gets from the rank after it: its new chunk ends beyond its old shard.
  double lacks(int r) const { return r < dead ? (r + 1.0) / (static_cast<double>(ranks) * (ranks - 1)) : 0; }
};

/// One array's value of an element: exact in fp32.
float value_of(std::size_t array, std::size_t element) {
  return static_cast<float>((array * 977 + element * 31) % 8191);
}

std::vector<float> values_of(std::size_t array, ChunkRange range) {
  std::vector<float> values;
  for (std::size_t e = range.offset; e < range.offset + range.size; ++e) values.push_back(value_of(array, e));
  return values;
}

std::vector<Slice> slices_of(Rank me, ChunkRange range, bool filled) {
  std::vector<Slice> slices;
  for (std::size_t a = 0; a < kArrays; ++a) {
    slices.push_back(me.allocate(range.size, DType::f32, Category::optimizer));
    if (filled)
      upload(me, slices.back(), values_of(a, range));
    else
      fill(me, slices.back(), 0);
  }
  return slices;
}

bool holds(Rank me, const std::vector<Slice>& slices, ChunkRange range) {
  for (std::size_t a = 0; a < kArrays; ++a)
    if (to_host(me, slices.at(a)) != values_of(a, range)) return false;
  return true;
}

Prepared prepare_snapshot(Rank me, Purpose purpose, const Death& death) {
  const auto chunk = [=](int rank) { return chunk_range(death.parameters, rank, death.ranks); };
  const auto shard = std::make_shared<std::vector<Slice>>(slices_of(me, chunk(me.rank()), purpose == Purpose::verify));
  const auto taken = std::make_shared<Snapshot>();
  const auto act = [=] { *taken = week25::snapshot_of(me, death.parameters, *shard); };
  const auto right = [=] {
    return holds(me, taken->own, chunk(me.rank())) && holds(me, taken->previous, chunk(me.rank() - 1));
  };
  return {act, right};
}

/// The dead rank does nothing.
Prepared prepare_new_shards(Rank me, Purpose purpose, const Death& death) {
  const Rank group = me.split(me.rank() == death.dead ? -1 : 0, me.rank());
  if (me.rank() == death.dead) return {[] {}, [] { return true; }};
  const bool filled = purpose == Purpose::verify;
  const auto held = std::make_shared<Snapshot>();
  held->own = slices_of(me, chunk_range(death.parameters, me.rank(), death.ranks), filled);
  held->previous = slices_of(me, chunk_range(death.parameters, me.rank() - 1, death.ranks), filled);
  const ChunkRange chunk = chunk_range(death.parameters, group.rank(), group.size());
  const auto shard = std::make_shared<std::vector<Slice>>(slices_of(me, chunk, false));
  const auto act = [=] { reshard(group, death.parameters, death.ranks, death.was(), *held, *shard); };
  return {act, [=] { return holds(group, *shard, chunk); }};
}

/// The shard is copied, array by array, and sent to the next rank.
double snapshot_seconds(const CollectivePrices& prices, const Death& death) {
  std::vector<Hop> hops;
  for (int r = 0; r < death.ranks; ++r) hops.push_back({r, (r + 1) % death.ranks});
  const double bytes = death.state_bytes() / death.ranks;
  return kArrays * copy_seconds(prices, bytes / kArrays) + round_seconds(prices, hops, bytes);
}

/// The rank that copies most, and the messages to the ranks before the dead one.
double new_shards_seconds(const CollectivePrices& prices, const Death& death) {
  std::vector<Hop> hops;
  const int after = (death.dead + 1) % death.ranks;  // has the copy
  for (int r = 0; r < death.dead; ++r) hops.push_back({r + 1 == death.dead ? after : r + 1, r, death.lacks(r)});
  double stays = 0;
  for (int r : death.was()) stays = std::max(stays, 1.0 / (death.ranks - 1) - death.lacks(r));
  const double copied = kArrays * copy_seconds(prices, stays * death.state_bytes() / kArrays);
  return hops.empty() ? copied : copied + round_seconds(prices, hops, death.state_bytes());
}

/// Bytes that all ranks together have sent.
double sent_bytes(const RunOptions& options, const Death& death, const decltype(&prepare_snapshot)& prepare) {
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    const Prepared prepared = prepare(me, Purpose::time, death);
    const auto before = ledger_of(me).traffic.bytes_sent;
    prepared.act();
    return {static_cast<double>(ledger_of(me).traffic.bytes_sent - before)};
  });
  outcome.check();
  double sum = 0;
  for (const Values& values : outcome.values) sum += values[0];
  return sum;
}

void add_death(Bench& bench, const Death& death) {
  const RunOptions options = bench.run_options(death.ranks);
  const double d = death.dead, p = death.ranks;
  const double snapshots = death.state_bytes(), shards = death.state_bytes() * d * (d + 1) / (2 * p * (p - 1));
  const double sent_snapshots = sent_bytes(options, death, prepare_snapshot),
               sent_shards = sent_bytes(options, death, prepare_new_shards);
  say("  {:>6} {:>6} {:>10.5g} {:>9.5g} {:>10.5g} {:>9.5g}\n", death.ranks, death.dead, snapshots / 1e6,
      sent_snapshots / 1e6, shards / 1e6, sent_shards / 1e6);
  const auto contender = [&, machine = bench.machine_of_links(options)](const char* name, auto prepare, auto seconds) {
    return Contender{.name = name,
                     .prepare = [=](Rank me, Purpose purpose) { return prepare(me, purpose, death); },
                     .predict =
                         [=](const LinkPrices& links) {
                           return seconds({links, machine}, death);
                         }};
  };
  const Contender snapshot = contender("snapshot", prepare_snapshot, snapshot_seconds);
  const Contender new_shards = contender("new_shards", prepare_new_shards, new_shards_seconds);
  bench.add(fmt::format("rank {} dies/{} ranks", death.dead, death.ranks), options, {snapshot, new_shards},
            [=](const std::vector<Measurement>&, std::size_t index, Row& row) {
              row.set("dead", death.dead).set("parameters", death.parameters);
              row.set("predicted_bytes_sent", index == 0 ? snapshots : shards);
              row.set("bytes_sent", index == 0 ? sent_snapshots : sent_shards);
            });
}

std::vector<int> dead_ranks(const SurvivorsOptions& o, int ranks) {
  if (o.dead.empty()) return {0, ranks / 2, ranks - 1};
  std::vector<int> all;
  for (const std::string& text : o.dead) all.push_back(whole_in("--dead", text, 0, ranks - 1));
  return all;
}

void measure_survivors(Bench& bench, const SurvivorsOptions& o) {
  std::vector<Death> all;
  for (const int ranks : bench.ranks()) {
    if (ranks < 3) throw Error(Verdict::usage, "a rank that dies leaves at least two: at least 3 ranks");
    for (const int dead : dead_ranks(o, ranks)) all.push_back({static_cast<std::size_t>(o.parameters), ranks, dead});
  }
  if (is_judge()) {
    fmt::print("weights, m and v of {:g} parameters in fp32; MB that all ranks send together\n", o.parameters);
    fmt::print("  {:>6} {:>6} {:>10} {:>9} {:>10} {:>9}\n", "ranks", "dead", "snapshot", "is", "new shards", "is");
  }
  for (const Death& death : all) add_death(bench, death);
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::SurvivorsOptions o;
  const auto declare = [&](CommandLine& line) {
    line.add("--parameters", o.parameters, "of the model, over all ranks: 1e6", Real{1, 1e13});
    line.add("--dead", o.dead,
             "rank that dies; separate several with commas; default: the first, one in the middle and the last");
  };
  return bench::bench_main("survivors", "When a rank dies: snapshots in memory, and new shards for the others.", argc,
                           argv, declare, [&](bench::Bench& bench) { bench::measure_survivors(bench, o); });
}

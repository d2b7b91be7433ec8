// The way of rows to experts on other ranks and back (23.7): two all-to-alls of unequal sizes. How much each rank
// sends, how much the busiest one computes, and how long the rows travel, by formula and in a run.
//
//   ./lab bench experts --machine dgx-a100 --ranks 8 --channels 4096 --skew 0,0.5 --phantom
//   ./lab bench experts --machine dgx-a100 --ranks 8 --channels 4096 --skew 0.5 --capacity-factor 1.25 --phantom
//   ./lab bench experts --backend mpi --ranks 2 --experts 8 --skew 0,0.25,0.5
//
// Every rank routes in the same way: expert 0 gets the share S of its slots, and the others the rest in equal parts.
// With a capacity factor (23.10), rows that an expert does not keep stay where they are. Results are checked row by row
// before they are timed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "bench/programs/collective_prices.hpp"
#include "bench/support/bench.hpp"
#include "common/chunk.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/parse_number.hpp"
#include "common/support/text/storage.hpp"
#include "common/support/text/units.hpp"
#include "labs/week23_tensor_parallel/expert_capacity.hpp"

namespace lockstep::bench {
namespace {

struct ExpertsOptions {
  int tokens = 1024, channels = 256, k = 2, experts = 0;
  double capacity_factor = 0;
  std::vector<std::string> skew{"0"};
  std::string dtype = "bf16";
};

/// One layer's rows, with the letters of 23.7: p ranks, E experts, k for each of N tokens, C channels.
struct Rows {
  std::size_t ranks = 1, experts = 1, k = 1, tokens = 1, channels = 1;
  double share = 1;          // of the slots, to expert 0
  double asked = 0;          // --skew; 0: it is like the others
  std::size_t capacity = 0;  // slots of a rank that an expert keeps; those of all tokens where there is no limit
  DType dtype = DType::bf16;

  std::size_t slots() const { return tokens * k; }
  std::size_t row_bytes() const { return channels * bytes_of(dtype); }
  /// Slots that each rank sends to each, itself included.
  std::vector<std::size_t> sent() const {
    std::vector<std::size_t> counts{static_cast<std::size_t>(std::lround(share * static_cast<double>(slots())))};
    const std::size_t rest = slots() - counts[0];
    for (std::size_t e = 1; e < experts; ++e)
      counts.push_back(chunk_range(rest, static_cast<int>(e) - 1, static_cast<int>(experts) - 1).size);
    for (std::size_t& count : counts) count = std::min(count, capacity);
    return week23::sums_of(counts, experts / ranks);
  }
  /// The share of a rank's slots that expert 0 keeps, and that of each of the others.
  std::pair<double, double> kept_shares() const {
    const double most = static_cast<double>(capacity) / static_cast<double>(slots());
    const double each = experts == 1 ? 0 : (1 - share) / static_cast<double>(experts - 1);
    return {std::min(share, most), std::min(each, most)};
  }
  double kept() const { return kept_shares().first + static_cast<double>(experts - 1) * kept_shares().second; }
  /// The share of all slots that the busiest rank's experts compute: rank 0's, or where expert 0 gets few, any other's.
  double of_busiest() const {
    const auto [first, each] = kept_shares();
    const double own = static_cast<double>(experts / ranks);
    return std::max(first + (own - 1) * each, ranks == 1 ? 0 : own * each);
  }
};

/// One layer's forward pass: bytes that a rank sends, there and back, the rows that the busiest rank computes over the
/// mean of all slots, and the share of the slots that is dropped.
struct Load {
  double mean_sent = 0, most_sent = 0, busiest = 0, dropped = 0;
};

/// There, a rank sends all kept rows but those to itself; back, what it got from the others.
Load predicted_load(const Rows& rows) {
  const double p = static_cast<double>(rows.ranks), all = static_cast<double>(rows.slots() * rows.row_bytes());
  return {2 * all * rows.kept() * (p - 1) / p, all * (rows.kept() + (p - 2) * rows.of_busiest()), p * rows.of_busiest(),
          1 - rows.kept()};
}

/// A rank's rows: of its slots, of its experts, and of its slots again.
struct RowArrays {
  std::vector<std::size_t> to_rank, from_rank;
  Slice slots, arrived, returned;
  RowArrays(Rank me, const Rows& rows) : to_rank(rows.sent()), from_rank(rows.ranks) {
    std::fill(from_rank.begin(), from_rank.end(), to_rank[static_cast<std::size_t>(me.rank())]);
    const auto array = [&](std::size_t count) {
      return me.allocate(count * rows.channels, rows.dtype, Category::buffer);
    };
    slots = array(leaving());
    arrived = array(rows.ranks * from_rank[0]);
    returned = array(leaving());
  }
  std::size_t leaving() const { return std::accumulate(to_rank.begin(), to_rank.end(), std::size_t{0}); }
};

void go(Rank me, const Rows& rows, const RowArrays& a) {
  week23::all_to_all(me, a.arrived, a.from_rank, a.slots, a.to_rank, rows.channels);
}
void come_back(Rank me, const Rows& rows, const RowArrays& a) {
  week23::all_to_all(me, a.returned, a.to_rank, a.arrived, a.from_rank, rows.channels);
}

/// By the ledgers of a run.
Load counted_load(const RunOptions& options, const Rows& rows) {
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    const RowArrays arrays(me, rows);
    fill(me, arrays.slots, 0);
    go(me, rows, arrays);
    const double arrived = static_cast<double>(ledger_of(me).traffic.bytes_received);
    come_back(me, rows, arrays);
    const double own = static_cast<double>(arrays.from_rank[0] * rows.row_bytes());
    return {static_cast<double>(ledger_of(me).traffic.bytes_sent), arrived + own};
  });
  outcome.check();
  Load load;
  double most_rows = 0, all_rows = 0;
  for (const Values& of_rank : outcome.values) {
    load.mean_sent += of_rank[0] / static_cast<double>(rows.ranks);
    load.most_sent = std::max(load.most_sent, of_rank[0]);
    most_rows = std::max(most_rows, of_rank[1]);
    all_rows += of_rank[1];
  }
  const double slots = static_cast<double>(rows.slots() * rows.row_bytes());
  load.busiest = most_rows / slots;
  load.dropped = 1 - all_rows / (slots * static_cast<double>(rows.ranks));
  return load;
}

/// The value of an element: small, so that it is exact in bf16, and rarely that of another row.
float value_of(std::size_t rank, std::size_t slot, std::size_t channel) {
  return static_cast<float>((rank * 89 + slot * 7 + channel) % 251);
}

/// Rows [first, first + count) of `rank`'s slots.
void append_rows(std::vector<float>& values, const Rows& rows, std::size_t rank, std::size_t first, std::size_t count) {
  for (std::size_t slot = first; slot < first + count; ++slot)
    for (std::size_t c = 0; c < rows.channels; ++c) values.push_back(value_of(rank, slot, c));
}

Prepared prepare_rows(Rank me, Purpose purpose, const Rows& rows) {
  const auto arrays = std::make_shared<RowArrays>(me, rows);
  const auto own = static_cast<std::size_t>(me.rank());
  std::vector<float> mine;
  fill(me, arrays->slots, 0);
  if (purpose == Purpose::verify) {
    append_rows(mine, rows, own, 0, arrays->leaving());
    upload(me, arrays->slots, mine);
  }
  const auto act = [=] {
    go(me, rows, *arrays);
    come_back(me, rows, *arrays);
  };
  const auto right = [=] {
    const auto before = arrays->to_rank.begin();
    const std::size_t first = std::accumulate(before, before + me.rank(), std::size_t{0});
    std::vector<float> expected;
    for (std::size_t q = 0; q < rows.ranks; ++q) append_rows(expected, rows, q, first, arrays->from_rank[q]);
    return to_host(me, arrays->arrived) == expected && to_host(me, arrays->returned) == mine;
  };
  return {act, right};
}

/// There and back: the rows that stay are copied first, and then the busiest port is never idle. So it is a lower
/// bound: a message also waits for those before it in its batch.
double travel_seconds(const CollectivePrices& prices, const Rows& rows) {
  const std::vector<std::size_t> sent = rows.sent();
  const auto most = static_cast<double>(*std::max_element(sent.begin(), sent.end()));
  const double bytes = most * static_cast<double>(rows.row_bytes());
  std::vector<Hop> there, back;
  for (int from = 0; from < static_cast<int>(rows.ranks); ++from)
    for (int to = 0; to < static_cast<int>(rows.ranks); ++to)
      if (const auto count = static_cast<double>(sent[static_cast<std::size_t>(to)]); from != to && count > 0) {
        there.push_back({from, to, count / most});
        back.push_back({to, from, count / most});
      }
  return 2 * copy_seconds(prices, bytes) + round_seconds(prices, there, bytes) + round_seconds(prices, back, bytes);
}

Rows rows_for(const ExpertsOptions& o, int ranks, const std::string& skew) {
  const std::size_t p = static_cast<std::size_t>(ranks), experts = o.experts ? static_cast<std::size_t>(o.experts) : p;
  if (experts % p != 0)
    throw Error(Verdict::usage, fmt::format("{} cannot be divided over {} ranks", counted(experts, "expert"), ranks));
  if (static_cast<std::size_t>(o.k) > experts)
    throw Error(Verdict::usage, fmt::format("--top-k {} is more than {}", o.k, counted(experts, "expert")));
  const auto share = parse_number<double>(skew);
  const double most = 1.0 / o.k,
               least = std::max(0.0, 1 - static_cast<double>(experts - 1) * most);  // the others' most
  if (!share || (*share != 0 && !(*share >= least - 1e-9 && *share <= most)))
    throw Error(Verdict::usage,
                fmt::format("--skew {}: must be 0, or a share from {:.4g} to 1/k = {:.4g}, because a token chooses an "
                            "expert at most once",
                            skew, least, most));
  return {.ranks = p,
          .experts = experts,
          .k = static_cast<std::size_t>(o.k),
          .tokens = static_cast<std::size_t>(o.tokens),
          .channels = static_cast<std::size_t>(o.channels),
          .share = *share > 0 ? *share : 1 / static_cast<double>(experts),
          .asked = *share,
          .capacity = o.capacity_factor > 0 ? week23::capacity_of(o.capacity_factor, static_cast<std::size_t>(o.tokens),
                                                                  experts, static_cast<std::size_t>(o.k))
                                            : static_cast<std::size_t>(o.tokens * o.k),
          .dtype = parse_storage(o.dtype)};
}

void add_rows(Bench& bench, const Rows& rows, const std::string& skew) {
  const int ranks = static_cast<int>(rows.ranks);
  const RunOptions options = bench.run_options(ranks);
  const Load formula = predicted_load(rows), is = counted_load(options, rows);
  say("  {:>5} {:>6} {:>9.2f} {:>6.2f} {:>10} {:>9} {:>10} {:>9} {:>7.1f}%\n", skew, rows.ranks, formula.busiest,
      is.busiest, format_bytes(formula.mean_sent), format_bytes(is.mean_sent), format_bytes(formula.most_sent),
      format_bytes(is.most_sent), 100 * is.dropped);
  const Contender contender{.name = "there_and_back",
                            .prepare = [=](Rank me, Purpose purpose) { return prepare_rows(me, purpose, rows); },
                            .predict =
                                [rows, machine = bench.machine_of_links(options)](const LinkPrices& links) {
                                  return travel_seconds({links, machine}, rows);
                                }};
  bench.add(
      fmt::format("skew {}/{} ranks", skew, ranks), options, {contender},
      [=](const std::vector<Measurement>&, std::size_t, Row& row) {
        row.set("experts", rows.experts).set("top_k", rows.k).set("tokens", rows.tokens);
        row.set("channels", rows.channels).set("dtype", std::string(to_string(rows.dtype))).set("skew", rows.asked);
        row.set("predicted_busiest", formula.busiest).set("busiest", is.busiest);
        row.set("predicted_bytes_sent_per_rank", formula.mean_sent).set("bytes_sent_per_rank", is.mean_sent);
        row.set("predicted_bytes_sent_per_rank_max", formula.most_sent);
        row.set("predicted_dropped", formula.dropped).set("dropped", is.dropped);
      });
}

void measure_experts(Bench& bench, const ExpertsOptions& o) {
  std::vector<std::pair<Rows, std::string>> all;
  for (const int ranks : bench.ranks())
    for (const std::string& skew : o.skew) all.emplace_back(rows_for(o, ranks, skew), skew);
  if (is_judge()) {
    fmt::print("{} of {} channels in {} on each rank, each to {}: one layer's forward pass\n",
               counted(static_cast<std::size_t>(o.tokens), "token"), o.channels, o.dtype,
               counted(static_cast<std::size_t>(o.k), "expert"));
    fmt::print("  {:>5} {:>6} {:>9} {:>6} {:>10} {:>9} {:>10} {:>9} {:>8}\n", "skew", "ranks", "busiest", "is",
               "mean sent", "is", "most sent", "is", "dropped");
  }
  for (const auto& [rows, skew] : all) add_rows(bench, rows, skew);
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::ExpertsOptions o;
  const auto declare = [&](CommandLine& line) {
    line.add("--tokens", o.tokens, "N, of each rank", Whole{1, 1 << 24});
    line.add("--channels", o.channels, "C, of a token's row", Whole{1, 1 << 20});
    line.add("--experts", o.experts, "E, a multiple of the ranks; default 0: one on each rank", Whole{0, 1 << 20});
    line.add("--top-k", o.k, "k, experts that a token goes to", Whole{1, 1 << 20});
    line.add("--capacity-factor", o.capacity_factor,
             "slots of a rank that an expert keeps, over what it would get from even routing; default 0: all of them",
             Real{0, 1e6});
    line.add(
        "--skew", o.skew,
        "share of all slots that go to expert 0, at most 1/k; separate several with commas; default 0: all experts "
        "get equally many");
    line.add("--dtype", o.dtype, "fp32, bf16 or fp16");
  };
  return bench::bench_main("experts", "Experts on different ranks: what their all-to-alls send, and the busiest rank.",
                           argc, argv, declare, [&](bench::Bench& bench) { bench::measure_experts(bench, o); });
}

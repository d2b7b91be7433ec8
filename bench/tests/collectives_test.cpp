// ./lab bench collectives: its algorithms and prices, refusals of wrong answers, and from outside its rows.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench/programs/bench_program.hpp"
#include "bench/programs/collective_algorithms.hpp"
#include "bench/programs/collective_kinds.hpp"
#include "bench/programs/collective_prices.hpp"
#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "labs/week21_data_parallel/first_messages.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

struct Way {
  const char* name;
  Collective collective;
  Act act;
};

void ring_reduce_scatter(Rank me, const Arrays& arrays) { week21::ring_reduce_scatter(me, arrays.from); }
void ring_all_gather(Rank me, const Arrays& arrays) { week21::ring_all_gather(me, arrays.to); }
void tree(Rank me, const Arrays& arrays) { tree_broadcast(me, arrays.to); }
void pairwise(Rank me, const Arrays& arrays) { pairwise_all_to_all(me, arrays.to, arrays.from); }

std::vector<Way> right_ways() {
  std::vector<Way> ways{
      {"ring", Collective::reduce_scatter, ring_reduce_scatter},
      {"ring", Collective::all_gather, ring_all_gather},
      {"star", Collective::broadcast, [](Rank me, const Arrays& a) { week21::broadcast(me, a.to, 0); }},
      {"tree", Collective::broadcast, tree},
      {"direct", Collective::all_to_all, [](Rank me, const Arrays& a) { direct_all_to_all(me, a.to, a.from); }},
      {"pairwise", Collective::all_to_all, pairwise}};
  for (const int segments : {1, 2, 7, 64})  // also more than there are elements: some are empty
    ways.push_back(
        {"chain", Collective::broadcast, [=](Rank me, const Arrays& a) { chain_broadcast(me, a.to, segments); }});
  return ways;
}

/// Each does some of it, or all of it and something else too.
std::vector<Way> wrong_ways() {
  using C = Collective;
  return {{"adds nothing", C::reduce_scatter, [](Rank, const Arrays&) {}},
          {"adds its own part once more", C::reduce_scatter,
           [](Rank me, const Arrays& a) {
             const Slice mine = me.allocate(a.to.size(), DType::f32, Category::buffer);
             copy(me, mine, a.to);
             ring_reduce_scatter(me, a);
             add(me, a.to, mine);
           }},
          {"completes the next rank's chunk", C::reduce_scatter,
           [](Rank me, const Arrays& a) {
             ring_reduce_scatter(me, a);
             const Slice theirs = me.allocate(a.to.size(), DType::f32, Category::buffer);
             me.exchange(
                 {send((me.rank() + 1) % me.size(), a.to), receive((me.rank() + me.size() - 1) % me.size(), theirs)});
             copy(me, a.to, theirs);
           }},
          {"leaves one chunk out", C::all_gather,
           [](Rank me, const Arrays& a) {
             ring_all_gather(me, a);
             if (me.rank() == 2) fill(me, chunk(a.to, 0, me.size()), -1);
           }},
          {"swaps two chunks", C::all_gather,
           [](Rank me, const Arrays& a) {
             ring_all_gather(me, a);
             const Slice first = chunk(a.to, 0, me.size()), second = chunk(a.to, 1, me.size());
             const Slice kept = me.allocate(first.size(), DType::f32, Category::buffer);
             copy(me, kept, first);
             copy(me, first, second);
             copy(me, second, kept);
           }},
          {"forgets the last rank", C::broadcast,
           [](Rank me, const Arrays& a) {
             const int last = me.size() - 1;
             if (me.rank() == last) return;
             if (me.rank() > 0) return me.exchange({receive(0, a.to)});
             for (int peer = 1; peer < last; ++peer) me.exchange({send(peer, a.to)});
           }},
          {"forgets the last element", C::broadcast,
           [](Rank me, const Arrays& a) { tree_broadcast(me, a.to.cut(0, a.to.size() - 1)); }},
          {"keeps its own chunk back", C::all_to_all,
           [](Rank me, const Arrays& a) {
             pairwise(me, a);
             fill(me, chunk(a.to, me.rank(), me.size()), 0);
           }},
          {"gathers chunk 0 of everybody", C::all_to_all,
           [](Rank me, const Arrays& a) {
             copy(me, chunk(a.to, me.rank(), me.size()), chunk(a.from, 0, me.size()));
             week21::ring_all_gather(me, a.to);
           }},
          {"mirrors the ranks", C::all_to_all, [](Rank me, const Arrays& a) {
             pairwise(me, a);
             const int p = me.size();
             const Slice mirrored = me.allocate(a.to.size(), DType::f32, Category::buffer);
             for (int r = 0; r < p; ++r) copy(me, chunk(mirrored, r, p), chunk(a.to, p - 1 - r, p));
             copy(me, a.to, mirrored);
           }}};
}

Measurement measured(const Way& way, int ranks, std::size_t elements, bool in_place = true) {
  const CollectiveAlgorithm algorithm{way.name, way.act, in_place};
  const Contender contender{.name = way.name, .prepare = [=, collective = way.collective](Rank me, Purpose purpose) {
                              return prepare_collective(me, purpose, collective, algorithm, elements);
                            }};
  return measure({.ranks = ranks}, {contender}, {})[0];  // with checks for races, memory poisoned
}

TEST(Collectives, GiveWhatTheyPromise) {
  for (const Way& way : right_ways())
    for (const int ranks : {2, 3, 4, 5, 7, 8})
      for (const std::size_t each : {1U, 5U, 40U}) {
        const Measurement result = measured(way, ranks, each * static_cast<std::size_t>(ranks));
        EXPECT_TRUE(result.verified) << way.name << ", " << ranks << " ranks";
      }
}

TEST(Collectives, WrongOnesAreRefused) {
  for (const Way& way : wrong_ways())
    for (const int ranks : {4, 5})
      for (const std::size_t each : {1U, 64U}) {
        try {
          measured(way, ranks, each * static_cast<std::size_t>(ranks));
          ADD_FAILURE() << name_of(way.collective) << " that " << way.name << " passed on " << ranks << " ranks";
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("has a wrong result"), std::string::npos) << error.what();
        }
      }
}

TEST(Collectives, AResultElsewhereIsNotTakenForOne) {
  // Not in place: what a ring leaves in its input is no result.
  EXPECT_THROW(measured({"ring", Collective::reduce_scatter, ring_reduce_scatter}, 4, 64, false), Error);
  const auto copied = [](Rank me, const Arrays& a) {
    ring_reduce_scatter(me, a);
    copy(me, a.to, chunk(a.from, me.rank(), me.size()));
  };
  EXPECT_TRUE(measured({"copied", Collective::reduce_scatter, copied}, 4, 64, false).verified);
}

TEST(Collectives, SegmentsAreThoseOfTheLowestPrice) {
  const CollectivePrices prices{{.alpha = 1e-6, .beta = 1e-9}};
  for (const int ranks : {3, 8, 64})
    for (const double bytes : {4e3, 1e6, 64e6}) {
      const int best = best_segments(prices, ranks, bytes);
      const double least = chain_seconds(prices, ranks, bytes, best);
      EXPECT_LE(least, chain_seconds(prices, ranks, bytes, 1));
      const bool may_double = bytes / (2 * best) >= 4096;
      EXPECT_LE(least, may_double ? chain_seconds(prices, ranks, bytes, 2 * best) : least);
      EXPECT_NEAR(least, (ranks - 2 + best) * (1e-6 + bytes / best * 1e-9), 1e-15);
      const double ideal = std::sqrt((ranks - 2) * bytes * 1e-9 / 1e-6);  // where the derivative is 0
      if (may_double) {
        EXPECT_LT(std::abs(std::log2(best / ideal)), 1) << ranks << ", " << bytes;
      }
    }
  EXPECT_EQ(best_segments(prices, 2, 64e6), 1) << "nobody passes anything on";
}

class CollectivesProgram : public BenchProgram {
 protected:
  Json rows(const std::string& arguments) { return rows_of(arguments, "collectives"); }
};

double number_of(const Json& row, const char* field) { return row.at(field).get<double>(); }

/// The most that a rank sends, over the bytes of the array.
double sent_by_a_rank(const std::string& algorithm, int p) {
  if (algorithm == "star") return p - 1;
  if (algorithm == "tree") return std::ceil(std::log2(p));
  return algorithm == "chain" ? 1 : (p - 1.0) / p;
}

TEST_F(CollectivesProgram, PricesAreExactOnOneLevelOfLinks) {
  for (const char* machine : {"uniform", "dgx-a100"})
    for (const int p : {2, 3, 5, 6, 8}) {
      const std::string arguments = std::string("--machine ") + machine + " --ranks " + std::to_string(p) + " --bytes ";
      for (const std::string more : {"960KiB", "960KiB --segments 6", "15MiB --phantom"}) {
        const Json all = rows(arguments + more);
        ASSERT_EQ(all.size(), 7U);
        for (const Json& row : all) {
          const double seconds = number_of(row, "seconds"), bytes = number_of(row, "bytes");
          const std::string algorithm = row.at("algorithm"), collective = row.at("collective");
          EXPECT_NEAR(number_of(row, "predicted_seconds") / seconds, 1, 1e-9) << row;
          EXPECT_EQ(row.at("verified"), !more.ends_with("--phantom")) << row;
          EXPECT_NEAR(number_of(row, "algbw_gb_per_s"), bytes / seconds / 1e9, 1e-9) << row;
          EXPECT_NEAR(number_of(row, "busbw_gb_per_s"),
                      bytes / seconds / 1e9 * (collective == "broadcast" ? 1 : (p - 1.0) / p), 1e-9)
              << row;
          EXPECT_NEAR(number_of(row, "bytes_sent_per_rank_max") / bytes, sent_by_a_rank(algorithm, p), 1e-9) << row;
        }
      }
    }
}

TEST_F(CollectivesProgram, BetweenNodesTheyAreWhatTheirPageSays) {
  for (const auto& [machine, shared] : std::map<std::string, bool>{{"dgx-a100-hdr", false}, {"dgx-a100-10gbe", true}})
    for (const Json& row : rows("--machine " + machine + " --ranks 16,32 --bytes 1MiB,64MiB --phantom")) {
      const std::string algorithm = row.at("algorithm");
      const double quotient = number_of(row, "predicted_seconds") / number_of(row, "seconds");
      const bool upper = shared && (algorithm == "star" || algorithm == "pairwise");
      const bool lower = algorithm == "direct";
      EXPECT_LT(quotient, upper ? 1.25 : 1.0001) << row;
      EXPECT_GT(quotient, lower ? 0.9 : 0.999) << row;
      EXPECT_EQ(row.at("verified"), false) << "a phantom run has no values";
    }
}

TEST_F(CollectivesProgram, OnOneLargeArrayTheChainBeatsTheTreeAndTheTreeTheStar) {
  const Json large = rows("--machine dgx-a100 --ranks 8 --bytes 64MiB --collective broadcast --phantom");
  EXPECT_GT(number_of(large[0], "seconds"), number_of(large[1], "seconds"));
  EXPECT_GT(number_of(large[1], "seconds"), 1.5 * number_of(large[2], "seconds"));
  EXPECT_GT(large[2].at("segments"), 8);
  const Json small =
      rows("--machine dgx-a100-hdr --ranks 16 --bytes 1KiB --collective broadcast --algorithm tree,chain");
  ASSERT_EQ(small.size(), 2U);
  EXPECT_LT(number_of(small[0], "seconds"), number_of(small[1], "seconds")) << "few messages one after the other";
}

TEST_F(CollectivesProgram, NoAllToAllIsFasterThanAPerfectNetwork) {
  // Within a node each GPU sends (p − 1)/p of the array. Where 8 GPUs share a port, it carries what leaves their node.
  const std::map<std::string, double> floors{{"--machine dgx-a100 --ranks 8", 7.0 / 8 / 235e9},
                                             {"--machine dgx-a100-10gbe --ranks 16", 8.0 * 8 / 16 / 1.177e9}};
  for (const auto& [where, per_byte] : floors)
    for (const Json& row : rows(where + " --bytes 64MiB --collective all_to_all,all_gather --phantom")) {
      EXPECT_EQ(row.contains("floor_seconds"), row.at("collective") == "all_to_all") << row;
      if (!row.contains("floor_seconds")) continue;
      EXPECT_NEAR(number_of(row, "floor_seconds") / (per_byte * number_of(row, "bytes")), 1, 1e-12) << row;
      EXPECT_GE(number_of(row, "seconds"), number_of(row, "floor_seconds")) << row;
      EXPECT_LT(number_of(row, "seconds"), 1.1 * number_of(row, "floor_seconds")) << row;
    }
  EXPECT_NE(out_.find("% of a perfect network's"), std::string::npos) << out_;
}

TEST_F(CollectivesProgram, ColumnsOfNcclTestsForWhatEachOfItsProgramsRuns) {
  const std::string arguments = "--machine dgx-a100 --ranks 8 --bytes 512MiB --columns nccl";
  const Json all = rows(arguments);
  ASSERT_EQ(all.size(), 3U) << "there is no prediction of a broadcast";
  // busbw is the all-reduce's 222.72 as published, since both take half as long and move half as much.
  for (const char* program : {"reduce_scatter_perf on 8 ranks of dgx-a100: what NCCL reaches on such a node",
                              "all_gather_perf on 8 ranks of dgx-a100: what NCCL reaches on such a node",
                              "alltoall_perf on 8 ranks of dgx-a100: a perfect network's time",
                              "\n   536870912      16777216     float     sum      -1   2109.2  254.54  222.72\n",
                              "\n   536870912      16777216     float    none      -1   2109.2  254.54  222.72\n",
                              "\n   536870912      16777216     float    none      -1   1999.0  268.57  235.00\n"})
    EXPECT_NE(out_.find(program), std::string::npos) << program << " is not in\n" << out_;
  EXPECT_EQ(out_.find("nobody published"), std::string::npos) << "512 MiB were measured";
  EXPECT_EQ(all[2].at("collective"), "all_to_all");
  EXPECT_NEAR(number_of(all[2], "floor_seconds") / (7.0 / 8 * (512U << 20U) / 235e9), 1, 1e-12);
  EXPECT_NEAR(number_of(all[0], "library_seconds"), 2109.2e-6, 0.1e-6);
}

TEST_F(CollectivesProgram, SizesAreRoundedToWholeElementsForEachRank) {
  for (const Json& row : rows("--ranks 3 --bytes 64")) EXPECT_EQ(row.at("bytes"), 60) << row;
}

TEST_F(CollectivesProgram, BadInputIsOneSentence) {
  const std::map<std::string, std::string> words{{"--ranks 1", "at least 2 ranks are needed"},
                                                 {"--collective broadcats", "broadcast"},
                                                 {"--algorithm pairwize", "pairwise"},
                                                 {"--ranks 8 --bytes 16", "8 ranks"},
                                                 {"--bytes 7", "4 bytes each"},
                                                 {"--segments -1", "--segments"},
                                                 {"--columns gloo", "there is only nccl"},
                                                 {"--columns nccl --ranks 1", "a single rank"},
                                                 {"--columns nccl --collective broadcast", "no prediction"},
                                                 {"--columns nccl --algorithm ring", "--algorithm"},
                                                 {"--collective broadcast --algorithm ring", "nothing to measure"}};
  for (const auto& [arguments, expected] : words) {
    expect_refused(start(arguments, "collectives"), arguments, expected);
  }
}

TEST_F(CollectivesProgram, OnMpiTheLibraryStandsBesideEach) {
  if (std::string_view(LOCKSTEP_LAUNCH_TWO).empty()) GTEST_SKIP() << "no MPI in this build";
  backend_ = "mpi";
  before_ = LOCKSTEP_LAUNCH_TWO;
  std::map<std::string, int> libraries, others;
  for (const Json& row : rows("--bytes 20KiB,512KiB --samples 5")) {
    const std::string algorithm = row.at("algorithm");
    if (algorithm == "memory_copy") continue;
    ++(algorithm == "library" ? libraries : others)[row.at("collective")];
    EXPECT_EQ(row.at("verified"), true) << row;
    EXPECT_EQ(row.at("predicted_seconds").is_null(), algorithm == "library") << row;
    EXPECT_EQ(row.contains("messages"), algorithm != "library") << "MPI's are not the runtime's";
    EXPECT_GT(number_of(row, "fraction_of_copy_bound"), 0) << row;
    EXPECT_LE(number_of(row, "times_library_low"), number_of(row, "times_library_high")) << row;
  }
  for (const Collective collective : other_collectives()) EXPECT_EQ(libraries[name_of(collective)], 2);
  EXPECT_EQ(others["broadcast"], 6);
  EXPECT_EQ(others["all_to_all"], 4);
}

}  // namespace
}  // namespace lockstep::bench

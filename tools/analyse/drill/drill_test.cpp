// Every variant of every drill can be solved from its run's files, guesses are refused, and planted faults do what
// their kind says.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "common/support/text/files.hpp"
#include "tools/analyse/drill/drills.hpp"
#include "tools/analyse/drill/files.hpp"
#include "tools/analyse/drill/kinds.hpp"
#include "tools/analyse/drill/plant.hpp"
#include "tools/analyse/drill/solve_testing.hpp"

namespace lockstep::drill {
namespace {

namespace fs = std::filesystem;
using Is = FieldVerdict::Is;

const Corpus& corpus() {
  static const Corpus text = Corpus::read(LOCKSTEP_SOURCE_DIR "/data/austen.txt", TokenKind::characters);
  return text;
}

struct Runs {
  Drill drill;
  Played good;
};
const Runs& runs_of(const std::string& id) {
  static std::map<std::string, Runs> all;
  const auto found = all.find(id);
  if (found != all.end()) return found->second;
  Drill drill = find_drill(id, corpus().vocabulary());
  Played good = play(drill.job, corpus(), {});
  good.outcome.check();
  return all.emplace(id, Runs{std::move(drill), std::move(good)}).first->second;
}

/// The drill with the fault of that seed, played once.
const Played& played_of(const std::string& id, std::uint64_t seed) {
  static std::map<std::pair<std::string, std::uint64_t>, Played> all;
  const auto found = all.find({id, seed});
  if (found != all.end()) return found->second;
  const auto& [drill, good] = runs_of(id);
  return all.emplace(std::pair{id, seed}, play(drill.job, corpus(), fault_of(drill, good, seed))).first->second;
}

/// The seed whose variant is of that kind.
std::uint64_t seed_of(const Drill& drill, const std::string& kind, std::uint64_t round = 0) {
  const auto at = std::find(drill.kinds.begin(), drill.kinds.end(), kind);
  EXPECT_NE(at, drill.kinds.end()) << kind;
  return static_cast<std::uint64_t>(at - drill.kinds.begin()) + round * drill.kinds.size();
}

/// ./lab drill gives a clone such a seed for all of its weeks (tools/course/drill.cpp).
TEST(Drill, AClonesWeeksHaveDifferentKinds) {
  for (std::uint64_t remainder = 2; remainder < 12; ++remainder) {
    std::set<std::string> kinds;
    for (const std::string& id : drill_ids()) {
      const Drill drill = find_drill(id, 1);
      EXPECT_EQ(30 % drill.kinds.size(), 0u) << id;
      kinds.insert(drill.kinds[remainder % drill.kinds.size()]);
    }
    EXPECT_EQ(kinds.size(), drill_ids().size()) << remainder;
  }
}

class Drills : public testing::TestWithParam<std::string> {
 protected:
  Drills() : folder_((fs::temp_directory_path() / fmt::format("lockstep_drill_{}", getpid())).string()) {}
  ~Drills() override { fs::remove_all(folder_); }

  std::string folder_;
};

TEST_P(Drills, EveryVariantIsSolvedFromItsFilesAlone) {
  const auto& [drill, good] = runs_of(GetParam());
  std::set<std::string> truths;
  write_evidence(folder_ + "/good", drill, good);
  for (std::uint64_t seed = 0; seed < 2 * drill.kinds.size(); ++seed) {
    const Fault fault = fault_of(drill, good, seed);
    const Played& played = played_of(drill.id, seed);
    write_evidence(folder_, drill, played);
    const Answer answer = solve(folder_);
    const Truth truth = truth_of(drill, fault, good, played);
    EXPECT_TRUE(all_right(judge(answer, truth)))
        << "drill " << drill.id << ", seed " << seed << ": planted " << truth.kind << ", " << truth.rank << ", "
        << truth.operation << ", " << truth.evidence << "; found " << answer.kind << ", " << answer.rank << ", "
        << answer.operation << ", " << answer.evidence;
    truths.insert(truth.kind + truth.rank + truth.operation);
    const std::string words = describe(fault);
    EXPECT_TRUE(fault.rank < 0 || words.find(fmt::format("rank {}", fault.rank)) != std::string::npos) << words;
  }
  EXPECT_GT(truths.size(), drill.kinds.size()) << "a seed says more than which kind it is";
}

TEST_P(Drills, GuessesAreRefused) {
  const auto& [drill, good] = runs_of(GetParam());
  for (std::uint64_t seed = 0; seed < drill.kinds.size(); ++seed) {
    const Fault fault = fault_of(drill, good, seed);
    const Truth truth = truth_of(drill, fault, good, played_of(drill.id, seed));
    const Answer right{truth.kind, truth.rank, truth.operation, fmt::format("{}", truth.evidence)};
    ASSERT_TRUE(all_right(judge(right, truth))) << truth.kind;
    for (int rank = -1; rank < drill.job.ranks(); ++rank) {
      Answer guess = right;
      guess.rank = rank < 0 ? "any" : std::to_string(rank);
      EXPECT_EQ(all_right(judge(guess, truth)), guess.rank == truth.rank) << truth.kind << " " << guess.rank;
    }
    for (const std::string& kind : drill.kinds) {
      Answer guess = right;
      guess.kind = kind;
      EXPECT_EQ(all_right(judge(guess, truth)), kind == truth.kind);
    }
    for (std::string Answer::*field : {&Answer::kind, &Answer::rank, &Answer::operation, &Answer::evidence}) {
      Answer guess = right;
      guess.*field = "";
      EXPECT_FALSE(all_right(judge(guess, truth))) << truth.kind;
    }
    Answer off = right;
    off.evidence = fmt::format("{}", 1.05 * truth.evidence + 1);
    EXPECT_FALSE(all_right(judge(off, truth))) << truth.kind << ": " << off.evidence;
    off = right;
    off.operation = "something";
    EXPECT_FALSE(all_right(judge(off, truth))) << truth.kind;
  }
}

TEST_P(Drills, TheOutputNamesItsVerdictOnce) {
  const Runs& runs = runs_of(GetParam());
  for (std::uint64_t seed = 0; seed < runs.drill.kinds.size(); ++seed) {
    const Played& played = played_of(GetParam(), seed);
    const std::string output = format_output(runs.drill, played), verdict(to_string(played.outcome.verdict));
    if (played.outcome.passed()) continue;
    const auto said = output.find(verdict);
    EXPECT_NE(said, output.npos) << output;
    EXPECT_EQ(output.find(verdict, said + 1), output.npos) << output;
  }
}

TEST_P(Drills, TheFormNamesEveryKindAndIsNotAnAnswer) {
  const Drill& drill = runs_of(GetParam()).drill;
  const std::string form = answer_form(drill);
  for (const std::string& kind : drill.kinds) EXPECT_NE(form.find("# " + kind + ": "), std::string::npos) << kind;
  const Answer answer = parse_answer(form, "form");
  for (const FieldVerdict& v : judge(answer, {.kind = drill.kinds[0], .rank = "0", .operation = "x", .evidence = 1}))
    EXPECT_EQ(v.is, Is::empty) << v.field;
}

INSTANTIATE_TEST_SUITE_P(All, Drills, testing::ValuesIn(drill_ids()),
                         [](const auto& info) { return "Drill" + info.param; });

// Effects of each kind ------------------------------------------------------------------------------------------------

struct Effect {
  const Runs& runs;
  Fault fault;
  const Played& played;
};
Effect effect(const std::string& id, const std::string& kind) {
  const Runs& runs = runs_of(id);
  const std::uint64_t seed = seed_of(runs.drill, kind);
  return {runs, fault_of(runs.drill, runs.good, seed), played_of(id, seed)};
}

/// To `tolerance`, relative: of sums in another order.
bool same_losses(const Effect& e, double tolerance = 0) {
  for (int step = 0; step < e.runs.drill.job.steps; ++step) {
    const double loss = loss_of(e.runs.drill.job, e.played, step), good = loss_of(e.runs.drill.job, e.runs.good, step);
    if (!(std::abs(loss - good) <= tolerance * good)) return false;
  }
  return true;
}

std::uint64_t activations(const Played& played, int rank) {
  return played.outcome.ledgers.at(static_cast<std::size_t>(rank)).memory.peak_of(Category::activation);
}

TEST(Planted, WhatIsSlowIsRightAndTakesLonger) {
  for (const auto& [id, kind] : std::vector<std::pair<std::string, std::string>>{{"21", "straggler"},
                                                                                 {"21", "slow-loader"},
                                                                                 {"24", "straggler"},
                                                                                 {"24", "short-warm-up"},
                                                                                 {"22", "sync-in-no-sync"},
                                                                                 {"23", "sync-in-no-sync"},
                                                                                 {"23", "mesh-order"},
                                                                                 {"25", "mesh-order"},
                                                                                 {"25", "straggler"},
                                                                                 {"25", "slow-loader"}}) {
    const Effect e = effect(id, kind);
    ASSERT_TRUE(e.played.outcome.passed()) << e.played.outcome.message;
    EXPECT_TRUE(same_losses(e, kind == "sync-in-no-sync" ? 1e-5 : 0)) << id << " " << kind;
    EXPECT_GT(e.played.outcome.seconds, 1.05 * e.runs.good.outcome.seconds) << id << " " << kind;
  }
}

TEST(Planted, AveragingEveryMicrobatchSendsTheGradientsEachTime) {
  const Effect e = effect("22", "sync-in-no-sync");
  // The sums of 3 of 4 microbatches are in vain: 2 (p − 1)/p of the gradients each.
  const auto bytes = [](const Played& played) { return played.outcome.ledgers[0].traffic.bytes_sent; };
  const double gradients = 4.0 * static_cast<double>(e.runs.drill.job.options.model.parameters());
  const double expected = 3 * 1.5 * gradients * e.runs.drill.job.steps;
  EXPECT_NEAR(static_cast<double>(bytes(e.played) - bytes(e.runs.good)), expected, 1e-3 * expected);
}

TEST(Planted, AFlippedBitLeavesOneReplicaApart) {
  const Effect e = effect("21", "flipped-bit");
  ASSERT_TRUE(e.played.outcome.passed());
  for (const StepSeen& s : e.played.steps) {
    const auto other = std::find_if(e.played.steps.begin(), e.played.steps.end(), [&](const StepSeen& o) {
      return o.step == s.step && o.rank != s.rank && o.rank != e.fault.rank;
    });
    EXPECT_EQ(s.values != other->values, s.rank == e.fault.rank && s.step >= e.fault.step)
        << "rank " << s.rank << ", step " << s.step;
  }
}

TEST(Planted, WhoTrainsOnTheSameDataHasTheSameLossAndTheRunLearns) {
  for (const char* id : {"21", "22"}) {
    const Effect e = effect(id, "same-data");
    const Job& job = e.runs.drill.job;
    const int next = (e.fault.rank + 1) % job.ranks();
    ASSERT_TRUE(e.played.outcome.passed()) << e.played.outcome.message;
    EXPECT_EQ(e.played.outcome.seconds, e.runs.good.outcome.seconds);
    EXPECT_LT(loss_of(job, e.played, job.steps - 1), loss_of(job, e.played, 0));
    for (const StepSeen& s : e.played.steps)
      for (const StepSeen& other : e.played.steps)
        if (s.step == other.step && s.rank < other.rank) {
          const std::set<int> both{s.rank, other.rank};
          EXPECT_EQ(s.loss == other.loss, (both == std::set<int>{e.fault.rank, next})) << s.rank << " " << other.rank;
          EXPECT_EQ(s.values, other.values) << "replicas stay equal";
        }
  }
}

TEST(Planted, CountsAndOrdersThatDifferAreMismatches) {
  for (const char* kind : {"swapped-order", "wrong-count"}) {
    const Effect e = effect("21", kind);
    EXPECT_EQ(e.played.outcome.verdict, Verdict::mismatch) << kind << ": " << e.played.outcome.message;
    EXPECT_TRUE(std::isnan(loss_of(e.runs.drill.job, e.played, e.fault.step)));
    EXPECT_FALSE(std::isnan(loss_of(e.runs.drill.job, e.played, e.fault.step - 1)));
  }
}

TEST(Planted, AMessageThatIsNeverSentIsADeadlock) {
  for (const char* id : {"24", "25"}) {
    const Effect e = effect(id, "lost-message");
    EXPECT_EQ(e.played.outcome.verdict, Verdict::deadlock) << e.played.outcome.message;
  }
}

TEST(Planted, AWarmUpCostsAMicrobatchesActivations) {
  const Effect longer = effect("24", "long-warm-up"), shorter = effect("24", "short-warm-up");
  EXPECT_TRUE(same_losses(longer));
  EXPECT_GT(activations(longer.played, longer.fault.rank), activations(longer.runs.good, longer.fault.rank));
  EXPECT_LT(activations(shorter.played, shorter.fault.rank), activations(shorter.runs.good, shorter.fault.rank));
}

TEST(Planted, CrossedMicrobatchesTrainSomethingElse) {
  const Effect e = effect("24", "crossed-microbatches");
  ASSERT_TRUE(e.played.outcome.passed());
  EXPECT_FALSE(same_losses(e));
}

TEST(Planted, NormsThatAreNotSummedDifferByRank) {
  for (const auto& [id, values] : {std::pair{"22", 4u}, {"23", 4u}, {"25", 2u}}) {
    const Effect e = effect(id, "norm-not-summed");
    std::set<double> norms, good;
    for (const StepSeen& s : e.played.steps)
      if (s.step == 0) norms.insert(s.norm);
    for (const StepSeen& s : e.runs.good.steps)
      if (s.step == 0) good.insert(s.norm);
    ASSERT_EQ(good.size(), 1u) << id;
    ASSERT_EQ(norms.size(), values) << id;
    double squares = 0;  // of the shards: they add up to the whole
    for (const double norm : norms) squares += norm * norm;
    EXPECT_NEAR(std::sqrt(squares), *good.begin(), 1e-4) << id;
  }
}

// Answers ------------------------------------------------------------------------------------------------------------

TEST(AnswerFile, FieldsAreReadAndWhatIsNoneIsNamed) {
  const Answer answer = parse_answer("# remark\nkind: Straggler # sure\n rank :2\noperation:  all_reduce 17\n", "a");
  EXPECT_EQ(answer.kind, "Straggler");
  EXPECT_EQ(answer.rank, "2");
  EXPECT_EQ(answer.operation, "all_reduce 17");
  EXPECT_EQ(answer.evidence, "");
  for (const char* wrong : {"kinds: x\n", "kind x\n", "rank: 1\nrank: 2\n"})
    EXPECT_THROW((void)parse_answer(wrong, "a"), Error) << wrong;
}

TEST(AnswerFile, NumbersHaveTheirUnits) {
  EXPECT_NEAR(parse_evidence("41.2 ms", Unit::seconds), 0.0412, 1e-12);
  EXPECT_NEAR(parse_evidence("0.0412", Unit::seconds), 0.0412, 1e-12);
  EXPECT_NEAR(parse_evidence("41 µs", Unit::seconds), 41e-6, 1e-12);
  EXPECT_EQ(parse_evidence("4096", Unit::bytes), 4096);
  EXPECT_EQ(parse_evidence("4 KiB", Unit::bytes), 4096);
  EXPECT_EQ(parse_evidence("3", Unit::count), 3);
  for (const char* wrong : {"", "many", "3 ms", "nan"}) EXPECT_THROW((void)parse_evidence(wrong, Unit::count), Error);
}

TEST(AnswerFile, WhatIsWrongIsSaidAndNotWhatIsRight) {
  const Truth truth{
      .kind = "wrong-count", .rank = "2", .operation = "all_reduce 7", .evidence = 4092, .unit = Unit::bytes};
  const auto is = [&](const Answer& answer) {
    std::vector<Is> all;
    for (const FieldVerdict& v : judge(answer, truth)) all.push_back(v.is);
    return all;
  };
  EXPECT_EQ(is({"wrong-count", "2", "7", "4092 B"}), (std::vector{Is::right, Is::right, Is::right, Is::right}));
  EXPECT_EQ(is({"swapped-order", "2", "7", "4092"}),
            (std::vector{Is::wrong, Is::right, Is::not_judged, Is::not_judged}));
  EXPECT_EQ(is({"wrong-count", "1", "all_reduce 8", "4096"}),
            (std::vector{Is::right, Is::wrong, Is::wrong, Is::wrong}));
  EXPECT_EQ(is({}), (std::vector{Is::empty, Is::empty, Is::empty, Is::empty}));
}

}  // namespace
}  // namespace lockstep::drill

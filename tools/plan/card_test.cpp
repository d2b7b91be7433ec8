// Tests of the design cards: each asks what its title says, a right answer passes, and each line can be wrong alone.
#include "tools/plan/card.hpp"

#include <gtest/gtest.h>

#include "tools/plan/plan_testing.hpp"
#include "tools/plan/refine.hpp"

namespace lockstep::plan {
namespace {

const std::string kCards = LOCKSTEP_SOURCE_DIR "/labs/week25_3d/cards.json";

struct Played {
  Task task;
  Search found;
  std::vector<Refined> best;  // of each mesh, fastest first
};

Played played(const std::string& id) {
  const Task task = task_of(find_card(read_cards(kCards), id), kMachines);
  Predictor predictor(task);
  Played result{task, search(predictor, strategies(task), 1), {}};
  if (!result.found.fitting.empty()) result.best = refine(task, result.found.fitting, 8).best;
  return result;
}

/// Seconds of the fastest whose strategy is so; 0 where none is.
double fastest(const Played& card, const std::function<bool(const week25::Strategy&)>& so) {
  for (const Refined& refined : card.best)
    if (so(refined.rated.strategy)) return refined.seconds();
  return 0;
}

bool tensor_alone(const week25::Strategy& s) { return s.tp > 1 && s.pp == 1; }
bool pipeline_alone(const week25::Strategy& s) { return s.pp > 1 && s.tp == 1; }

TEST(Cards, AskWhatTheyAreFor) {
  const Played fsdp = played("1");
  EXPECT_EQ(fsdp.best.front().rated.strategy.zero, 3) << "sharding alone wins";
  EXPECT_EQ(fsdp.best.front().rated.strategy.dp, 8);

  const Played tensor = played("2");
  EXPECT_GE(tensor.best.front().rated.strategy.tp, 4);
  EXPECT_LT(fastest(tensor, tensor_alone), 1.05 * tensor.best.front().seconds()) << "tensor needs no pipeline";
  EXPECT_GT(fastest(tensor, pipeline_alone), 1.5 * tensor.best.front().seconds()) << "and beats it";

  const Played pipeline = played("3");
  EXPECT_TRUE(pipeline_alone(pipeline.best.front().rated.strategy));
  const double sharded = fastest(pipeline, [](const week25::Strategy& s) { return s.tp > 1; });
  EXPECT_GT(sharded, 1.2 * pipeline.best.front().seconds()) << "pipeline beats tensor";

  EXPECT_TRUE(played("6").found.fitting.empty()) << "nothing fits";
}

/// A right answer to a card, from its own search.
std::string right_answer(const Played& card) {
  const Refined& best = card.best.front();
  const week25::Strategy& s = best.rated.strategy;
  const bool helps = card.found.unlimited.front().time.total() < 0.98 * best.rated.time.total();
  return "# mine\nstrategy: dp=" + std::to_string(s.dp) + ", tp=" + std::to_string(s.tp) +
         ", pp=" + std::to_string(s.pp) + ", microbatch=" + std::to_string(s.microbatch) +
         ", zero=" + std::to_string(s.zero) + "\noverhead: " + week25::largest_overhead(best.rated.time).name +
         "\nmore memory: " + (helps ? "yes" : "no") + "\nbecause: it says so\n";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, text.npos) << what;
  return text.replace(at, text.find('\n', at) - at, by);
}

TEST(Cards, EachLineIsJudged) {
  const Played card = played("2");
  const std::string right = right_answer(card);
  const auto judged = [&](const std::string& text) { return judge_card(card.task, parse_card_answer(text, "answer")); };
  const CardFinding fine = judged(right);
  EXPECT_TRUE(fine.ok) << right << fine.words;
  EXPECT_EQ(fine.score, 1);
  ASSERT_TRUE(fine.best);

  const CardFinding slow = judged(replaced(right, "strategy:", "strategy: dp=1,tp=1,pp=8,microbatch=1,zero=0"));
  EXPECT_FALSE(slow.ok);
  EXPECT_LT(slow.score, 0.6) << slow.words;
  EXPECT_TRUE(contains(slow.words, "not yet")) << slow.words;

  EXPECT_FALSE(judged(replaced(right, "overhead:", "overhead: bubble")).ok);
  const bool yes = contains(right, "more memory: yes");
  EXPECT_FALSE(judged(replaced(right, "more memory:", yes ? "more memory: no" : "more memory: yes")).ok);
  EXPECT_FALSE(judged(replaced(right, "strategy:", "strategy: none")).ok);
  const CardFinding large = judged(replaced(right, "strategy:", "strategy: dp=2,tp=1,pp=4,microbatch=1,zero=3"));
  EXPECT_FALSE(large.ok);
  EXPECT_TRUE(contains(large.words, "wrong: ")) << large.words;
}

TEST(Cards, SayWhatWasLeftOut) {
  const Task task = task_of(find_card(read_cards(kCards), "5"), kMachines);
  const std::string fields = "dp=1,tp=1,pp=2,microbatch=1";
  const CardStrategy found = strategy_of(task, fields);
  ASSERT_TRUE(found.best) << found.why;
  const std::string strategy = format_strategy(found.best->rated.strategy);
  EXPECT_TRUE(contains(strategy, "interleaved")) << "no schedule was named, so the best is taken: " << strategy;
  const CardFinding finding = judge_card(
      task, parse_card_answer("strategy: " + fields +
                                  ",zero=0\noverhead: " + week25::largest_overhead(found.best->rated.time).name +
                                  "\nmore memory: yes\nbecause: one boundary",
                              "answer"));
  EXPECT_TRUE(contains(finding.words, strategy)) << finding.words;
  const CardStrategy large = strategy_of(task, "dp=2,tp=1,pp=1,microbatch=8,zero=0");
  EXPECT_FALSE(large.best);
  EXPECT_TRUE(contains(large.why, "GB per GPU, which has 24")) << large.why;
  EXPECT_TRUE(contains(strategy_of(task, "dp=3").why, "no strategy for 2 GPUs")) << "3 replicas on 2 GPUs";
}

/// A GPU whose memory lies between what the formula says and what the simulator's ranks hold.
TEST(Cards, WhatFitsByFormulaAloneIsRefused) {
  Task task = task_of(find_card(read_cards(kCards), "5"), kMachines);
  const std::string fields = "dp=2,tp=1,pp=1,microbatch=4,zero=3,recompute=none";
  const CardStrategy fits = strategy_of(task, fields);
  ASSERT_TRUE(fits.best) << fits.why;
  ASSERT_TRUE(fits.best->played);
  const double formula = fits.best->rated.memory.total_bytes(), ledger = fits.best->played->peak_bytes();
  ASSERT_LT(formula, ledger) << "choose another strategy";
  task.memory_bytes = (formula + ledger) / 2;
  const CardStrategy full = strategy_of(task, fields);
  EXPECT_FALSE(full.best);
  EXPECT_TRUE(contains(full.why, "in the simulator more than")) << full.why;
}

TEST(Cards, WhereNothingFitsAnyStrategyIsWrong) {
  const Played card = played("6");
  EXPECT_TRUE(judge_card(card.task, parse_card_answer("strategy: none\nbecause: 16 bytes", "answer")).ok);
  const CardAnswer some = parse_card_answer(
      "strategy: dp=1,tp=8,pp=1,microbatch=1,zero=0\noverhead: bubble\nmore memory: yes\nbecause: hope", "answer");
  EXPECT_FALSE(judge_card(card.task, some).ok);
}

TEST(Cards, WhatIsMissingInAnAnswerIsNamed) {
  const auto error = [](const std::string& text) { return refusal([&] { parse_card_answer(text, "answer"); }); };
  EXPECT_TRUE(contains(error("because: x"), "'strategy:' is empty"));
  EXPECT_TRUE(contains(error("strategy: none\n"), "'because:' is empty"));
  EXPECT_TRUE(contains(error("strategy: dp=1,tp=1\nbecause: x"), "pp is missing"))
      << error("strategy: dp=1,tp=1\nbecause: x");
  EXPECT_TRUE(contains(error("a word"), "is not a line such as"));
  const std::string fields = "strategy: dp=1,tp=1,pp=1,microbatch=1,zero=0\nbecause: x\n";
  EXPECT_TRUE(contains(error(fields + "overhead: buble"), "did you mean 'bubble'?"))
      << error(fields + "overhead: buble");
  EXPECT_TRUE(contains(error(fields + "overhead: bubble\nmore memory: perhaps"), "yes or no"));
  EXPECT_TRUE(contains(refusal([] { find_card(read_cards(kCards), "7"); }), "unknown card"));
}

}  // namespace
}  // namespace lockstep::plan

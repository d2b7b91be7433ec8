// Every number of docs/learn/theory/week25.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "labs/trainer/plan/search.hpp"
#include "labs/week25_3d/diagnosis.hpp"
#include "labs/week25_3d/planner_testing.hpp"
#include "labs/week25_3d/save_interval_testing.hpp"
#include "labs/week25_3d/step_time.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

const std::string kPlans = LOCKSTEP_SOURCE_DIR "/docs/reference/tables/stage_time.md";

std::string percent(double share, int decimals) { return fixed(100 * share, decimals); }

plan::Task gpt3() { return plan::preset_task("gpt3-175b", "dgx-a100x128", 1536, kMachines); }

/// A run that takes too long here: the number in a column of the reference report's row that begins so.
double reported(const std::string& row, int column) {
  std::ifstream file(kPlans);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(row)) continue;
    std::size_t at = 0;
    for (int i = 0; i < column; ++i) at = line.find('|', at + 1);
    return std::stod(line.substr(at + 1));
  }
  throw Error(Verdict::fail, kPlans + " has no row " + row);
}

/// By how much, at most, 25.3's prediction for 12p microbatches is too short, if one of p stages is slower by a tenth.
double too_short(const week25::Named& named) {
  double most = 0;
  for (const int p : {2, 3, 4, 8})
    for (int slow = 0; slow < p; ++slow) {
      week25::Workload work = week25::uneven(p, 12 * p, 0, 0);
      week25::StageWork& stage = work.stages[static_cast<std::size_t>(slow)];
      stage.forward *= 1.1, stage.backward *= 1.1, stage.weights *= 1.1;
      const std::vector<double> ends = week25::ends_of(named, work);
      const double predicted = week25::pipeline(week25::pipeline_of(named, p), work).seconds();
      most = std::max(most, 1 - predicted / *std::max_element(ends.begin(), ends.end()));
    }
  return most;
}

/// Bytes that a rank of GPT-3 as (8, 8, 16) sends on each axis, by the table of section 1.
void three_axes(Page& page) {
  const plan::Task task = gpt3();
  const double rows = static_cast<double>(task.length), channels = static_cast<double>(task.model.d_model),
               microbatches = task.global_batch / 8.0, layers = static_cast<double>(task.model.layers) / 16,
               parameters = static_cast<double>(task.model.parameters());
  const double activations = microbatches * rows * channels, of_rank = parameters / (8 * 16), gb = 2 / 1e9;
  page.says(
      "On tp, 8 · {} · {} · {} · {} · 7/8 elements of 2 bytes are {} GB. On pp, 2 · {} · {} · {} elements are {} GB. "
      "On "
      "dp, 2 · {} billion · 7/8 elements are {} GB.",
      {fixed(layers), fixed(microbatches), fixed(rows), fixed(channels), fixed(gb * 8 * layers * activations * 7 / 8),
       fixed(microbatches), fixed(rows), fixed(channels), fixed(gb * 2 * activations, 1), fixed(of_rank / 1e9, 2),
       fixed(gb * 2 * of_rank * 7 / 8, 1)});
}

void one_step_on_three_axes(Page& page) {
  page.cites("the first rank of a group", {"replicated tensors where tp = 0, the embedding where pp = 0"});
  page.cites("the example's", {"a norm √8 times too large"});
  const week25::PhantomStep step = step_of(gpt3(), {.dp = 8, .tp = 8, .pp = 16});
  page.says("GPT-3's {} ranks become {}, one per stage", {fixed(gpt3().cluster.gpus), fixed(step.simulated_ranks)});
  page.says("| GPT-3 175B, {} sequences | (8, 8, 16) | 192 | {} | {}% | {}% | {} GiB | {} ranks |",
            {fixed(gpt3().global_batch), fixed(step.seconds, 1), percent(step.bubble_of_ideal, 1), percent(step.mfu, 1),
             fixed(step.peak_bytes() / (1 << 30), 1), fixed(step.simulated_ranks)});
  for (const auto& [words, row] :
       {std::pair{"interleaved v = 3 | (1, 8, 35) | 280", "| 530 billion | 1 × 8 × 35 |"},
        {"| 1T, 512 sequences, sequence parallelism | (1, 8, 64) | 512", "| 1,008 billion | 1 × 8 × 64 |"}})
    page.says(words + std::string(" | {} | {}% | {}% | {} GiB | {} ranks |"),
              {fixed(reported(row, 5), 1), fixed(reported(row, 7), 1), fixed(reported(row, 6), 1),
               fixed(reported(row, 9) * 1e9 / (1 << 30), 1), fixed(reported(row, 3))});
}

void choosing(Page& page) {
  const plan::Task task = gpt3();
  page.says("For {} GPUs and a batch of {} there are {} of them. On a cluster, trying one takes minutes on 1,024 GPUs.",
            {fixed(task.cluster.gpus), fixed(task.global_batch), fixed(static_cast<double>(strategies(task).size()))});
  plan::Predictor predictor(task);
  const auto kept = [&](bool recompute) {  // of a block: six are a stage
    const week25::Strategy alone{.dp = 64, .tp = 1, .pp = 16, .recompute = recompute};
    return fixed(predictor.pricer().work(alone, 24).stages[1].kept_bytes / (6.0 * 2048 * 12288));
  };
  page.says("Recomputation keeps {} bytes per row and channel of each block instead of about {}",
            {kept(true), kept(false)});
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) EXPECT_NEAR(too_short({name, 1}), 0, 1e-9) << name;
  page.says("of 12p microbatches by up to {}% with v = 2 and {}% with v = 3",
            {percent(too_short({"interleaved", 2}), 0), percent(too_short({"interleaved", 3}), 0)});

  page.cites("Lab25_6c.RanksStrategiesAsTheSimulatorDoes expects it",
             {"rank correlation above 0.98, errors within 12%"});
  page.cites("./lab plan --simulate 10; suite.plan expects at most 4 and 3% of five plans, and which is the best",
             {"On 1,024 GPUs, where", "ten best plans are at most 1.6% shorter than simulated",
              "their memory is right to 2.3% (`--simulate 10`)"});
  const auto time = [&](const week25::Strategy& strategy) { return predictor.rate(strategy).time; };
  const week25::StepTime plain = time({.dp = 8, .tp = 8, .pp = 16, .recompute = true});
  const week25::StepTime chunks = time({.dp = 8, .tp = 8, .pp = 16, .schedule = "interleaved", .chunks = 3});
  const week25::StepTime best = time({.dp = 32, .tp = 4, .pp = 8, .schedule = "interleaved", .chunks = 6, .zero = 1});
  page.says(
      "dp 8, tp 8 and pp 16 with 1F1B and recomputation take {} s per step, and the best plan, 32 × 4 × 8, {} s. Of "
      "the difference {} s are the recomputed forward, {} s the bubble that six chunks per stage avoid. Without "
      "recomputation and with chunks 8 × 8 × 16 takes {} s. The rest is tp = 8, whose shards are so thin that products "
      "run {}% slower and all-reduces take {} s more.",
      {fixed(plain.total(), 1), fixed(best.total(), 1), fixed(plain.recomputed, 1),
       fixed(plain.bubble - best.bubble, 1), fixed(chunks.total(), 1), percent(chunks.compute / best.compute - 1, 0),
       fixed(chunks.tensor - best.tensor, 1)});
  const week25::PhantomStep other = step_of(task, {.dp = 16, .tp = 8, .pp = 8});
  page.says("8 stages and 16 replicas, fits without changes: {} GB, {} s",
            {fixed(other.peak_bytes() / 1e9, 1), fixed(other.seconds, 1)});
  Page("docs/learn/claims.md")
      .says("| {} s a step, 65% MFU; the planner's best, dp 32 × tp 4 × pp 8, {} s",
            {fixed(other.seconds, 1), fixed(best.total(), 1)});
  page.cites("the cluster's", {"jitter of 1,024 GPUs"});
}

/// Problems 4 and 5: a pipeline that is extended, and what ZeRO exposes.
void short_pipelines_and_exposed_sums(Page& page) {
  const auto seconds = [](int m) { return makespan("1f1b", 4, m, 0); };  // 3 for each microbatch of a stage
  const double more = seconds(12) - seconds(8);
  page.cites("the problem's", {"192 + 3 microbatches of 3 seconds"});
  page.says("we have {} times four more, so we need {} + {} · {} or {} s.",
            {fixed((192 - 12) / 4.0), fixed(seconds(12)), fixed((192 - 12) / 4.0), fixed(more), fixed(seconds(192))});
  EXPECT_DOUBLE_EQ(seconds(12) + (192 - 12) / 4.0 * more, seconds(192)) << "a short simulation is enough";

  week25::Workload work{.microbatches = 2};
  work.stages = {{.forward = 2, .backward = 4, .window = 4, .parameters = 1e9}};
  work.data = {.alpha = 0, .beta = 2e-9, .gamma = 1e-9, .launch = 0};  // gathers in 2 s, scatters in 3
  const auto exposed = [&](int zero) { return fixed(exposed_data({.dp = 2, .zero = zero}, work, work.stages[0])); };
  page.says("behind one backward, and exposes {} s.", {exposed(0)});
  page.says("nothing hides its gather, so it exposes {} s.", {exposed(1)});
  page.says("gathers once, and exposes {} s.", {exposed(2)});
  page.says("behind each backward, and exposes {} s.", {exposed(3)});
}

/// Problems 6 and 7: a step by hand, and what it loses.
void a_step_by_hand(Page& page) {
  using week25::Limit;
  const week25::StepLedgers step{.seconds = 20,
                                 .latency = 1,
                                 .seconds_per_byte = 1,
                                 .ranks = {{.arithmetic = 8, .launch = 1},
                                           {.arithmetic = 12, .launch = 1, .hidden = 1, .messages = 2, .bytes = 4}}};
  const week25::Decomposition d = decompose(step), serial{.compute = 18, .launch = 1};
  page.says(
      "Compute is the mean of 7 and 11, {} ms. Launch is {} ms. Imbalance is 12 − 10, {} ms. The second rank waits for "
      "{} ms, of which {} ms are exposed and {} ms are the bubble. Together they are the {} ms.",
      {fixed(d.compute), fixed(d.launch), fixed(d.imbalance), fixed(d.exposed + d.bubble), fixed(d.exposed),
       fixed(d.bubble), fixed(d.seconds())});
  const week25::Diagnosis named = name_limit(d, serial, 2, week25::Scaling::strong);
  EXPECT_EQ(named.limit, Limit::not_overlapped) << "what problem 7 says";
  page.says(
      "Their share is {} ms, so they lose {} ms. Compute loses nothing, since {} ms is its share. Launch loses {} ms, "
      "imbalance {} ms, the bubble {} ms, and exposed communication {} ms, which is the limit. The messages are {} ms "
      "on the wire, and compute and launch take {} ms",
      {fixed(named.ideal, 1), fixed(named.lost, 1), fixed(serial.compute / 2), fixed(d.launch - serial.launch / 2, 1),
       fixed(d.imbalance), fixed(d.bubble), fixed(named.most), fixed(d.wire), fixed(d.compute + d.launch)});
}

void what_limits_a_step(Page& page) {
  page.cites("the example's", {"Remove 3 ms of messages and the step may be 1 ms shorter"});
  const std::vector<week21::Measurement> times = strong_scaling();
  std::vector<double> serial;  // on 2, 4, 8 and 16
  for (std::size_t i = 1; i < times.size(); ++i)
    serial.push_back(week21::karp_flatt(week21::speedup(times[0].seconds, times[i].seconds), times[i].ranks));
  const auto [least, most] = std::minmax_element(serial.begin(), serial.end() - 1);
  const week21::SerialFraction all = fit_amdahl(times);
  page.says(
      "{} to {} on 2, 4 and 8 GPUs of a node, {} on 16 of two nodes. The fit over all gives {}, with an interval from "
      "{} to {}.",
      {fixed(*least, 3), fixed(*most, 3), fixed(serial.back(), 2), fixed(all.value, 2), fixed(all.low, 2),
       fixed(all.high, 2)});
  page.says("Efficiency stays above E up to p = 1 + (1/E − 1)/s. With s = {} it would still be a half on {} GPUs",
            {fixed(serial[2], 3), fixed(week25::most_ranks(serial[2], 0.5))});
}

void how_often_to_save(Page& page) {
  using week25::SavingCosts;
  page.cites("the formula's", {"e^((τ + δ)/M)·(1 − τ/M) = 1.", "at R = 0.)"});
  const SavingCosts example{.save = 50, .restart = 100, .mtbf = 10'000};
  const double tau = week25::best_intervals(example).young, restarts = example.restart / example.mtbf;
  const auto saves = [&](double interval) { return example.save / interval; };
  const auto lost = [&](double interval) { return interval / 2 / example.mtbf; };
  page.says(
      "The root of 2 · 50 · {} is {} s. We lose {}% of the work to saves, {}% to failures and {}% to restarts, "
      "together {}%. With half the interval it is {} and {}%, with twice the interval the other way round, so {}% with "
      "restarts. Exactly, and as a share of all the time, we waste {}% at {} s.",
      {fixed(example.mtbf), fixed(tau), percent(saves(tau), 0), percent(lost(tau), 0), percent(restarts, 0),
       percent(saves(tau) + lost(tau) + restarts, 0), percent(saves(tau / 2), 0), percent(lost(tau / 2), 1),
       percent(saves(2 * tau) + lost(2 * tau) + restarts, 1), percent(expected_waste(example, tau), 1), fixed(tau)});
  for (const double save : {0.0001, 0.01, 0.1, 0.5, 1.0}) {
    const SavingCosts costs{.save = save, .restart = 0, .mtbf = 1};
    const auto [young, daly] = week25::best_intervals(costs);
    const double best = week25::save_interval_test::best_by_scan(costs);
    const auto beyond = [&](double interval) {
      return 100 * (expected_waste(costs, interval) / expected_waste(costs, best) - 1);
    };
    page.says("| {} | {} | + {}% | {}% | {}% | {}% |",
              {fmt::format("{}", save), rounded(best, 4), rounded(100 * (young / best - 1), 2),
               percent(daly / best - 1, 2), rounded(beyond(young), 2), fixed(beyond(daly), 4)});
  }
  double most = 0;
  for (double save = 1e-4; save < 10; save *= 1.02) {
    const SavingCosts costs{.save = save, .restart = 0, .mtbf = 1};
    const auto [young, daly] = week25::best_intervals(costs);
    most = std::max(most, 1 - expected_waste(costs, daly) / expected_waste(costs, young));
  }
  page.says("Daly's never reduces the waste by more than {}%.", {percent(most, 1)});
}

class Week25 : public Programs {};

TEST_F(Week25, Theory) {
  Page page("docs/learn/theory/week25.md");
  three_axes(page);
  one_step_on_three_axes(page);
  choosing(page);
  short_pipelines_and_exposed_sums(page);
  what_limits_a_step(page);
  a_step_by_hand(page);
  how_often_to_save(page);
  for (const auto& [interval, name] : {std::pair{"Daly's / 4", ""},
                                       {"Daly's / 2", ""},
                                       {"Daly's", " (Daly's)"},
                                       {"Young's", " (Young's)"},
                                       {"Daly's × 2", ""},
                                       {"Daly's × 4", ""}}) {
    const Json run =
        row("bench_saving_sim", [&, interval = interval](const Json& each) { return each.at("interval") == interval; });
    const auto share = [&](const char* field) { return percent(run.at(field), 2); };
    page.says(fmt::format("| {{}} minutes{} | {{}}% | {{}}% | {{}}% | {{}}% | {{}}% |", name),
              {rounded(run.at("interval_seconds").get<double>() / 60, 3), share("predicted_waste"), share("waste"),
               share("saves_share"), share("lost_share"), share("restarts_share")});
    page.says("sees the same {} failures (δ = {} s, R = {} minutes, M = {} hours",
              {rounded(run.at("failures"), 2), fixed(kSaving.save), fixed(kSaving.restart / 60),
               fixed(kSaving.mtbf / 3600, 1)});
  }
  page.expect_all_known();
}

}  // namespace
}  // namespace lockstep::numbers

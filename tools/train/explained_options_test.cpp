// ./lab train --explain-as: every option that changes the step changes each program's text, by a line or by a sentence.
#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "tools/train/explain.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

std::optional<int> read_words(const std::string& words, TrainRequest& request) {
  std::istringstream in("train " + words);
  std::vector<std::string> all{std::istream_iterator<std::string>(in), {}};
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  return parse(static_cast<int>(pointers.size()), pointers.data(), request);
}

std::string explained(const char* program, const std::string& words) {
  TrainRequest request = small_run();
  request.batch = 24;
  request.explain_as = program;
  EXPECT_EQ(read_words(words, request), std::nullopt) << words;
  return explanation_text(explain_as(program, make_plan(request, 0)));
}

/// An option, in a run of the others that it needs.
struct ChangedStep {
  const char *option, *value, *others = "--dp 2";
};
const std::vector<ChangedStep> kChanged = {
    {"--model", "tiny-llama"},
    {"--layers", "3"},
    {"--d-model", "128"},
    {"--heads", "1"},
    {"--untied", ""},
    {"--attention", "materialised"},
    {"--tokens", "char"},
    {"--steps", "9"},
    {"--batch", "12"},
    {"--sequence", "8"},
    {"--microbatches", "2"},
    {"--lr", "0.001"},
    {"--optimizer", "sgd"},
    {"--lr-scaling", "linear --base-batch 8"},
    {"--warmup", "3"},
    {"--weight-decay", "0.2"},
    {"--clip", "2"},
    {"--dropout", "0.1"},
    {"--seed", "2"},
    {"--precision", "bf16"},
    {"--fp32-gradients", "", "--dp 2 --precision bf16"},
    {"--reduce", "fp32", "--dp 2 --precision bf16"},
    {"--loss-scale", "1024", "--dp 2 --precision fp16"},
    {"--loss-scale-interval", "100", "--dp 2 --precision fp16"},
    {"--recompute", "full"},
    {"--dp", "4", ""},
    {"--ranks", "4", ""},
    {"--cp", "2"},
    {"--tp", "2"},
    {"--pp", "2"},
    {"--schedule", "gpipe", "--pp 2"},
    {"--chunks", "4", "--pp 2 --layers 8 --schedule interleaved"},
    {"--sequence-parallel", "", "--tp 2"},
    {"--overlap-scatter", "", "--tp 2 --sequence-parallel"},
    {"--bucket-bytes", "40000"},
    {"--zero", "2", "--dp 2"},
    {"--shard-group", "2", "--dp 4 --zero 3"},
    {"--wrap", "model", "--dp 2 --zero 3"},
    {"--prefetch", "2", "--dp 2 --zero 3"},
    {"--overlap-gather", "", "--dp 2 --zero 1"},
    {"--no-overlap", ""},
    {"--compress", "int8"},
    {"--no-feedback", "", "--dp 2 --compress topk:0.1"},
    {"--outer-steps", "2"},
    {"--outer-lr", "0.5", "--dp 2 --outer-steps 2"},
    {"--outer-momentum", "0.5", "--dp 2 --outer-steps 2"},
};

/// What is around the step, or only in our own. The last two are of experts, with which nothing is explained.
const std::set<std::string> kAround = {"--help",        "--config",     "--backend",       "--data",
                                       "--load-rate",   "--load-ahead", "--base-batch",    "--machine",
                                       "--emulate",     "--phantom",    "--every-rank",    "--tf32",
                                       "--check-races", "--threads",    "--log-every",     "--validate-every",
                                       "--sample",      "--prompt",     "--csv",           "--json",
                                       "--explain-as",  "--trace",      "--checkpoint",    "--checkpoint-every",
                                       "--resume",      "--init",       "--on-save-error", "--capacity-factor",
                                       "--balance-loss"};

TEST(ExplainAs, WhatChangesTheStepChangesEachTextOrIsNamedInIt) {
  for (const ChangedStep& c : kChanged)
    for (const char* program : {"torchrun", "accelerate", "deepspeed", "megatron"}) {
      const std::string now = explained(program, std::string(c.others) + " " + c.option + " " + c.value);
      if (now.find(c.option) == now.npos) {
        EXPECT_NE(explained(program, c.others), now) << program << " ignores " << c.option;
      }
    }
}

TEST(ExplainAs, EveryOptionIsAmongThese) {
  testing::internal::CaptureStdout();
  TrainRequest request;
  EXPECT_EQ(read_words("--help", request), 0);
  std::istringstream help(testing::internal::GetCapturedStdout());
  std::set<std::string> known = kAround, missing;
  for (const ChangedStep& c : kChanged) known.insert(c.option);
  std::size_t options = 0;
  for (std::string line; std::getline(help, line);) {
    const std::size_t at = line.find("--");
    if (at == line.npos) continue;
    if (line.find_first_not_of(' ') != at && !line.starts_with("  -h,--")) continue;
    const std::string name = line.substr(at, line.find_first_of(" ,", at) - at);
    ++options;
    if (!known.contains(name)) missing.insert(name);
  }
  EXPECT_GT(options, 60u);
  EXPECT_EQ(missing, std::set<std::string>{}) << "does it change the step?";
}

}  // namespace
}  // namespace lockstep::train

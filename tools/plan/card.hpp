// Design cards: a model, a cluster and a batch. Which strategy, what costs it most, and would memory help? Nothing of
// an answer is written down anywhere: the search finds the best strategy, the simulator says what each takes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "labs/trainer/plan/search.hpp"
#include "tools/plan/refine.hpp"

namespace lockstep::plan {

struct Card {
  std::string id, title, words;
  std::string model, cluster;
  std::string prices;  ///< lab or library, as ./lab plan has them
  int global_batch = 0;
};

/// The cards of a file. Throws Error(usage).
std::vector<Card> read_cards(const std::string& path);
/// The card with this id. Throws Error(usage) with the known ones.
Card find_card(const std::vector<Card>& cards, const std::string& id);
Task task_of(const Card& card, const std::string& machines);
/// The card's question, with the figures of the cluster, and the command that shows what a strategy takes.
std::string format_card(const Card& card, const Task& task);

/// A learner's answer: lines of "name: value"; those that begin with # are passed over.
struct CardAnswer {
  bool nothing_fits = false;                                  ///< strategy: none
  std::vector<std::pair<std::string, std::string>> strategy;  ///< fields and values
  std::string overhead;                                       ///< by the names of week25::shares, without compute
  bool more_memory = false;
  std::string because;
};
/// Throws Error(usage) that names `name` and the line that is missing or cannot be read.
CardAnswer parse_card_answer(const std::string& text, const std::string& name);

struct CardFinding {
  bool ok = false;
  double score = 0;             ///< the best step's seconds over this one's, both as the simulator plays them
  std::string words;            ///< a line for each line of the answer
  std::optional<Refined> best;  ///< where there is one
};
/// Right: within 5 % of the best known, the largest overhead of the chosen strategy named, and whether a step would be
/// 2 % faster or more if memory had no limit, as ./lab plan says it.
CardFinding judge_card(const Task& task, const CardAnswer& answer);

/// The fastest strategy that has these fields ("dp=8,tp=1"), as the simulator plays it; or none, and why.
struct CardStrategy {
  std::optional<Refined> best;
  std::string why;
};
CardStrategy strategy_of(const Task& task, const std::string& fields);

}  // namespace lockstep::plan

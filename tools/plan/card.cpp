#include "tools/plan/card.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/trim.hpp"
#include "common/support/text/units.hpp"
#include "tools/plan/strategy_file.hpp"

namespace lockstep::plan {

using week25::Rated;

namespace {

constexpr double kCloseEnough = 0.95;  // of the best
constexpr double kFaster = 0.98;       // what a step without a limit of memory takes at most, where memory would help

const std::vector<std::string> kRequired{"dp", "tp", "pp", "microbatch", "zero"};

[[noreturn]] void bad_card(const std::string& where, const std::string& sentence) {
  throw Error(Verdict::usage, where + ": " + sentence);
}

std::map<std::string, std::string> lines_of(const std::string& text, const std::string& name) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line = trimmed(line); line.empty() || line[0] == '#') continue;
    const auto colon = line.find(':');
    if (colon == line.npos) bad_card(name, fmt::format("'{}' is not a line such as overhead: bubble", line));
    values[trimmed(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  }
  return values;
}

/// The names that `overhead` may have.
std::vector<std::string> overheads() {
  std::vector<std::string> names;
  for (const week25::Share& share : week25::shares({}))
    if (share.name != "compute") names.push_back(share.name);
  return names;
}

std::vector<std::pair<std::string, std::string>> strategy_in(std::string text, const std::string& name) {
  std::erase(text, ' ');
  const auto fields = wanted_fields(text);
  for (const std::string& field : kRequired)
    if (std::none_of(fields.begin(), fields.end(), [&](const auto& f) { return f.first == field; }))
      bad_card(name, fmt::format("strategy: {} is missing; it needs {}, and may have the others of ./lab plan --score",
                                 field, fmt::join(kRequired, ", ")));
  return fields;
}

using StrategyFields = std::vector<std::pair<std::string, std::string>>;

std::string words_of(const StrategyFields& fields) {
  std::string words;
  for (const auto& [field, value] : fields) words += fmt::format("{}{}={}", words.empty() ? "" : ",", field, value);
  return words;
}

CardStrategy best_with(const Task& task, Predictor& predictor, const Search& found, const StrategyFields& fields) {
  const auto meant = [&](const week25::Strategy& s) { return has_fields(s, fields); };
  std::vector<Rated> fitting;
  std::copy_if(found.fitting.begin(), found.fitting.end(), std::back_inserter(fitting),
               [&](const Rated& rated) { return meant(rated.strategy); });
  if (const std::vector<Refined> best = refine(task, fitting, 1).best; !best.empty()) return {best.front(), ""};
  if (!fitting.empty())
    return {std::nullopt,
            fmt::format("by formula it needs {:.1f} GB per GPU, but in the simulator more than its {:.4g}",
                        fitting.front().memory.total_bytes() / 1e9, task.memory_bytes / 1e9)};
  std::vector<week25::Strategy> all = strategies(task);
  std::erase_if(all, [&](const week25::Strategy& s) { return !meant(s); });
  const Search these = search(predictor, all, 1);
  if (all.empty())
    return {std::nullopt, fmt::format("no strategy for {} GPUs and {} sequences is {}", task.cluster.gpus,
                                      task.global_batch, words_of(fields))};
  if (these.smallest.empty()) return {std::nullopt, these.refused.begin()->second.sentence};
  return {std::nullopt, fmt::format("it needs {:.1f} GB per GPU, which has {:.4g}",
                                    these.smallest.front().memory.total_bytes() / 1e9, task.memory_bytes / 1e9)};
}

CardFinding judge_where_nothing_fits(const Task& task, const Search& found, const CardAnswer& answer) {
  const double least = found.smallest.empty() ? 0 : found.smallest.front().memory.total_bytes();
  if (answer.nothing_fits)
    return {
        true, 1,
        fmt::format("strategy     right: nothing fits. The least that any of {} strategies needs is {:.1f} GB per GPU, "
                    "which has {:.4g} ({})\n",
                    found.rated, least / 1e9, task.memory_bytes / 1e9,
                    found.smallest.empty() ? "" : format_strategy(found.smallest.front().strategy)),
        std::nullopt};
  return {false, 0,
          fmt::format("strategy     wrong: {} does not fit in {:.4g} GB per GPU. Which strategy needs least?\n",
                      words_of(answer.strategy), task.memory_bytes / 1e9),
          std::nullopt};
}

}  // namespace

std::vector<Card> read_cards(const std::string& path) {
  std::vector<Card> cards;
  try {
    for (const Json& card : Json::parse(read_file(path)))
      cards.push_back({.id = card.at("id"),
                       .title = card.at("title"),
                       .words = card.at("words"),
                       .model = card.at("model"),
                       .cluster = card.at("cluster"),
                       .prices = card.at("prices"),
                       .global_batch = card.at("global_batch")});
  } catch (const JsonError& error) {
    bad_card(path, error.what());
  }
  return cards;
}

Card find_card(const std::vector<Card>& cards, const std::string& id) {
  return find_known("card", id, cards, &Card::id);
}

Task task_of(const Card& card, const std::string& machines) {
  Task task = preset_task(card.model, card.cluster, card.global_batch, machines);
  if (card.prices == "library") task.cluster.machine = task.cluster.machine.as_library();
  return task;
}

std::string format_card(const Card& card, const Task& task) {
  return fmt::format(
      "Card {}: {}\n\n{}\n\n"
      "model      {}, {} tokens per sequence\ncluster    {}: {} GPUs of {:.4g} GB\nbatch      {} sequences per step\n\n"
      "What one strategy costs: ./lab card explain {} dp=…,tp=…,pp=…\n"
      "All of them, ranked:     ./lab plan --model {} --cluster {} --global-batch {}{}\n",
      card.id, card.title, card.words, card.model, task.length, card.cluster, task.cluster.gpus,
      task.memory_bytes / 1e9, card.global_batch, card.id, card.model, card.cluster, card.global_batch,
      card.prices == "library" ? " --prices library" : "");
}

CardAnswer parse_card_answer(const std::string& text, const std::string& name) {
  std::map<std::string, std::string> lines = lines_of(text, name);
  CardAnswer answer;
  for (const char* line : {"strategy", "because"})
    if (lines[line].empty()) bad_card(name, fmt::format("the line '{}:' is empty", line));
  answer.because = lines["because"];
  answer.nothing_fits = lines["strategy"] == "none";
  if (answer.nothing_fits) return answer;
  answer.strategy = strategy_in(lines["strategy"], name);
  answer.overhead = lines["overhead"];
  const std::vector<std::string> known = overheads();
  if (std::find(known.begin(), known.end(), answer.overhead) == known.end())
    bad_card(name, unknown_name("overhead", answer.overhead, known));
  const std::string memory = lines["more memory"];
  if (memory != "yes" && memory != "no") bad_card(name, fmt::format("more memory: '{}' must be yes or no", memory));
  answer.more_memory = memory == "yes";
  return answer;
}

CardFinding judge_card(const Task& task, const CardAnswer& answer) {
  Predictor predictor(task);
  const Search found = search(predictor, strategies(task), 1);
  if (found.fitting.empty()) return judge_where_nothing_fits(task, found, answer);
  if (answer.nothing_fits)
    return {false, 0, "strategy     wrong: something does fit. Which part of the memory can be divided, and by what?\n",
            std::nullopt};
  const Refined best = refine(task, found.fitting, 1).best.front();
  const CardStrategy mine = best_with(task, predictor, found, answer.strategy);
  if (!mine.best) return {false, 0, fmt::format("strategy     wrong: {}\n", mine.why), std::nullopt};

  const double score = std::min(1.0, best.seconds() / mine.best->seconds());
  const week25::StepTime& time = mine.best->rated.time;
  const bool close = score >= kCloseEnough, named = week25::largest_overhead(time).name == answer.overhead;
  const bool helps = found.unlimited.front().time.total() < kFaster * best.rated.time.total();
  std::string words =
      fmt::format("strategy     {}: {} per step, {:.0f}% of the best known ({})\n", close ? "right" : "not yet",
                  format_seconds(mine.best->seconds()), 100 * score, format_strategy(mine.best->rated.strategy));
  words += fmt::format("overhead     {}\n",
                       named ? "right" : "wrong: ./lab card explain shows where your strategy's time goes");
  words += fmt::format(
      "more memory  {}\n",
      helps == answer.more_memory ? "right" : "wrong: ./lab plan says what the best would be without a memory limit");
  return {close && named && helps == answer.more_memory, score, words, best};
}

CardStrategy strategy_of(const Task& task, const std::string& fields) {
  Predictor predictor(task);
  return best_with(task, predictor, search(predictor, strategies(task), 1), wanted_fields(fields));
}

}  // namespace lockstep::plan

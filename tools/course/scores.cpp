#include "tools/course/scores.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

/// Task and what of it.
using Event = std::pair<std::string, std::string>;

struct Entry {
  std::string date;  // UTC
  double score = 0;
};

fs::path scores_log(const Paths& paths) { return paths.source / "outputs" / "scores.log"; }

/// Lines of date, exercise, score and what, with tabs between; others are passed over.
std::map<Event, std::vector<Entry>> read_scores(const Paths& paths) {
  std::map<Event, std::vector<Entry>> scores;
  std::istringstream lines(read_text(scores_log(paths)));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string date, exercise, score, what;
    if (!std::getline(fields, date, '\t') || !std::getline(fields, exercise, '\t')) continue;
    if (!std::getline(fields, score, '\t') || !std::getline(fields, what)) continue;
    scores[{exercise, what}].push_back({date, std::strtod(score.c_str(), nullptr)});
  }
  return scores;
}

/// The first open task that is here; "": none.
std::string open_task(const Paths& paths) {
  for (const Exercise& exercise : paths.course.select("").exercises)
    if (exercise.name.starts_with("open_") && paths.has(exercise)) return exercise.id;
  return "";
}

bool less(const Entry& a, const Entry& b) { return a.score < b.score; }
Entry best_of(const std::vector<Entry>& entries) { return *std::max_element(entries.begin(), entries.end(), less); }

struct Ranked {
  std::string name;
  double score = 0;
};

/// The scores in what one submission's tests printed.
void add_scores(const fs::path& results, std::map<Event, std::vector<Ranked>>& places) {
  const Json document = Json::parse(read_file(results.string()));
  if (!document.contains("tests")) return;
  for (const Json& test : document.at("tests")) {
    std::istringstream lines(std::string(test.at("output")));
    for (std::string line; std::getline(lines, line);)
      if (const auto score = testing::score_in(line))
        places[{test.at("number"), score->what}].push_back({results.stem().string(), score->value});
  }
}

}  // namespace

std::string keep_scores(const Paths& paths, const testing::Judgement& judgement) {
  if (!judgement.ok()) return "";
  const auto before = read_scores(paths);
  std::string text, lines;
  for (const std::string& note : judgement.notes) {
    const auto score = testing::score_in(note);
    if (!score) continue;
    lines += fmt::format("{:%Y-%m-%d}\t{}\t{:.3f}\t{}\n", fmt::gmtime(std::time(nullptr)), judgement.id, score->value,
                         score->what);
    const auto known = before.find({judgement.id, score->what});
    const std::string best = known == before.end() ? "the first"
                             : score->value > best_of(known->second).score
                                 ? fmt::format("your best; before {:.3f}", best_of(known->second).score)
                                 : fmt::format("your best {:.3f}", best_of(known->second).score);
    text += fmt::format("  score {:.3f}  {} ({})\n", score->value, score->what, best);
  }
  if (!lines.empty()) write_text(scores_log(paths), read_text(scores_log(paths)) + lines);
  return text;
}

int print_scores(const Paths& paths) {
  const auto scores = read_scores(paths);
  if (scores.empty()) {
    const std::string task = open_task(paths);
    fmt::print("No scores yet. Open tasks have scores, {}.\n",
               task.empty() ? "and there is none here" : "for example ./lab check " + task);
  }
  std::string exercise;
  for (const auto& [event, entries] : scores) {
    if (event.first != exercise) fmt::print("{}\n", exercise = event.first);
    const Entry best = best_of(entries), last = entries.back();
    fmt::print("  {} best {:.3f} ({})   last {:.3f} ({})\n", padded(event.second, 48), best.score, best.date,
               last.score, last.date);
  }
  return 0;
}

int print_ranking(const std::string& folder) {
  std::map<Event, std::vector<Ranked>> places;
  std::error_code none;
  std::set<fs::path> files;
  for (const auto& file : fs::directory_iterator(folder, none))
    if (file.path().extension() == ".json" && file.path().stem() != "summary") files.insert(file.path());
  for (const fs::path& file : files) {
    try {
      add_scores(file, places);
    } catch (const JsonError&) {
      fmt::print("{}: no results of ./lab grade\n", file.filename().string());
    }
  }
  if (places.empty())
    throw Error(Verdict::usage,
                fmt::format("{} has no scores: ./lab grade handed-in/* --only 21.11 --out {}", folder, folder));
  for (auto& [event, all] : places) {
    std::sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) {
      return a.score != b.score ? a.score > b.score : a.name < b.name;
    });
    fmt::print("{} {}\n", event.first, event.second);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool shared = i > 0 && all[i].score == all[i - 1].score;  // the same place, then
      fmt::print("  {:>4}  {:8.3f}  {}\n", shared ? "" : fmt::format("{}.", i + 1), all[i].score, all[i].name);
    }
  }
  return 0;
}

}  // namespace lockstep::tools

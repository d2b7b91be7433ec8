#include "tools/course/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/parse_number.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

std::filesystem::path file_of(const Paths& paths) { return paths.source / "outputs" / "predictions.json"; }

std::string id_of(const Exercise& exercise, std::size_t number) { return fmt::format("{}/{}", exercise.id, number); }

std::optional<double> number_of(const Json& row, const std::string& field) {
  const Json* value = row.find(field);
  if (!value || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

/// The question with an id such as "21.2/1"; nothing if the course no longer has it.
const Question* question_of(const Course& course, const std::string& id) {
  for (const Week& week : course.weeks())
    for (const Exercise& exercise : week.exercises)
      for (std::size_t i = 0; i < exercise.questions.size(); ++i)
        if (id_of(exercise, i + 1) == id) return &exercise.questions[i];
  return nullptr;
}

void write_predictions(const Paths& paths, const std::vector<Prediction>& predictions) {
  std::vector<Row> rows;
  for (const Prediction& p : predictions) {
    Row& row = rows.emplace_back();
    row.set("question", p.question).set("guess", p.guess).set("date", p.date).set("commit", p.commit);
    row.set("formula", p.formula.value_or(NAN)).set("measured", p.measured.value_or(NAN));
    if (const Question* question = question_of(paths.course, p.question))
      row.set("ask", question->ask).set("unit", question->unit);  // for the report
  }
  make_folders_of(file_of(paths).string());
  write_results(file_of(paths).string(), Context::here(), rows);
}

std::optional<double> read_number(std::string text) {
  std::replace(text.begin(), text.end(), ',', '.');
  const std::optional<double> value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// Asks until there is a number, or an empty line, or no line.
std::optional<double> ask(const Question& question, std::size_t number) {
  while (true) {
    fmt::print("{}. {} [{}] ", number, question.ask, question.unit);
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line) || line.empty()) return std::nullopt;
    if (const auto value = read_number(line)) return value;
    fmt::print("please enter a number, in {}, or press Enter to skip the question for now\n", question.unit);
  }
}

bool fits(const Json& row, const Question& question) {
  return std::all_of(question.where.begin(), question.where.end(), [&](const auto& wanted) {
    const Json* value = row.find(wanted.first);
    return value &&
           (value->is_string() ? value->get<std::string>() : fmt::format("{}", value->get<double>())) == wanted.second;
  });
}

/// Runs the question's command and adds its result to the prediction.
void measure(const Paths& paths, const Question& question, Prediction& prediction) {
  const RunFolder folder(paths);
  const std::filesystem::path result = folder.path() / "result.json";
  std::vector<std::string> words{(paths.build / "tools" / "lab").string()};
  std::istringstream text(question.run);
  for (std::string word; text >> word;) words.push_back(word);
  words.insert(words.end(), {"--json", result.string()});
  const std::string command = "./lab " + question.run;
  printed_by({.arguments = words}, command, command + " failed");
  const Json document = Json::parse(read_text(result));
  for (const Json& row : document.at("rows")) {
    if (!fits(row, question)) continue;
    const auto measured = number_of(row, question.field), formula = number_of(row, "predicted_" + question.field);
    if (measured) prediction.measured = *measured * question.factor;
    if (formula) prediction.formula = *formula * question.factor;
    if (measured) return;
  }
  throw Error(Verdict::usage, fmt::format("./lab {} says no {}", question.run, question.field));
}

std::string off_by(const Prediction& p) {
  if (p.measured.value_or(0) == 0) return "";
  const double ratio = p.guess / *p.measured;
  if (ratio > 3) return fmt::format(" (yours is {:.3g} times that)", ratio);
  return std::abs(ratio - 1) < 0.005 ? " (0%)" : fmt::format(" ({:+.0f}%)", 100 * (ratio - 1));
}

}  // namespace

std::vector<Prediction> read_predictions(const Paths& paths) {
  std::vector<Prediction> predictions;
  const std::string text = read_text(file_of(paths));
  if (text.empty()) return predictions;
  try {
    const Json document = Json::parse(text);
    for (const Json& row : document.at("rows"))
      predictions.push_back({row.at("question"), row.at("date"), row.at("commit"), row.at("guess"),
                             number_of(row, "formula"), number_of(row, "measured")});
  } catch (const JsonError& error) {
    throw Error(Verdict::usage, fmt::format("{}: {}", file_of(paths).string(), error.what()));
  }
  return predictions;
}

std::optional<Prediction> prediction_of(const std::vector<Prediction>& predictions, const Exercise& exercise,
                                        std::size_t number) {
  for (const Prediction& prediction : predictions)
    if (prediction.question == id_of(exercise, number)) return prediction;
  return std::nullopt;
}

namespace {

std::string format_measured(const Prediction& p, const Question& question) {
  const std::string formula = p.formula ? fmt::format("formula {:.4g}, ", *p.formula) : "";
  const std::string rule = question.rule.empty() ? "" : fmt::format("    by formula: {}\n", question.rule);
  return fmt::format("you predicted {:.4g} {}, {}measured {:.4g}{}: {}\n{}", p.guess, question.unit, formula,
                     *p.measured, off_by(p), question.ask, rule);
}

/// The program that a question's command runs, then its arguments.
std::vector<std::string> program_words(const std::string& run) {
  std::vector<std::string> words;
  std::istringstream text(run);
  for (std::string word; text >> word;) words.push_back(word);
  if (words[0] == "bench") {
    words.erase(words.begin());
    words[0] = "bench_" + words[0];
  }
  if (words[0] == "flops") {
    words[0] = "--flops";
    words.insert(words.begin(), "plan");
  }
  words[0] = target_of(words[0]);
  return words;
}

}  // namespace

std::string format_predictions_of_run(const Paths& paths, const std::string& target,
                                      const std::vector<std::string>& arguments) {
  const std::vector<Prediction> predictions = read_predictions(paths);
  std::string text;
  for (const Exercise& exercise : paths.course.select("").exercises)
    for (std::size_t i = 0; i < exercise.questions.size(); ++i) {
      const auto p = prediction_of(predictions, exercise, i + 1);
      if (!p || !p->measured) continue;
      const std::vector<std::string> words = program_words(exercise.questions[i].run);
      const bool given = words[0] == target && std::all_of(words.begin() + 1, words.end(), [&](const auto& word) {
                           return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
                         });
      if (given) text += fmt::format("{}: {}", exercise.id, format_measured(*p, exercise.questions[i]));
    }
  return text;
}

std::string format_predictions(const Paths& paths, const Exercise& exercise, bool again) {
  const std::vector<Prediction> predictions = read_predictions(paths);
  std::string text;
  std::size_t open = 0, shown = 0;
  for (std::size_t i = 0; i < exercise.questions.size(); ++i) {
    const Question& question = exercise.questions[i];
    const auto p = prediction_of(predictions, exercise, i + 1);
    if (!p || !p->measured) {
      ++open;
      continue;
    }
    text += again ? "" : "  " + format_measured(*p, question), ++shown;
  }
  if (again && shown > 0)
    text += fmt::format("  {}: ./lab predict {} shows {} again\n", counted(shown, "prediction"), exercise.id,
                        shown == 1 ? "it" : "them");
  if (open > 0) text += fmt::format("  {} to predict: ./lab predict {}\n", counted(open, "question"), exercise.id);
  return text;
}

int predict(const Paths& paths, const std::string& what) {
  int asked = 0;
  for (const Exercise& exercise : paths.course.select(what).exercises) {
    if (exercise.questions.empty()) continue;
    fmt::print("{} {}\n", exercise.id, exercise.title);
    std::vector<Prediction> predictions = read_predictions(paths);
    for (std::size_t i = 0; i < exercise.questions.size(); ++i) {
      ++asked;
      if (prediction_of(predictions, exercise, i + 1)) continue;
      const auto guess = ask(exercise.questions[i], i + 1);
      if (!guess) continue;
      const Context here = Context::here();
      predictions.push_back({id_of(exercise, i + 1), here.date, here.commit, *guess, {}, {}});
      write_predictions(paths, predictions);  // before anything is shown
    }
    for (std::size_t i = 0; i < exercise.questions.size(); ++i)
      for (Prediction& prediction : predictions)
        if (prediction.question == id_of(exercise, i + 1) && !prediction.measured)
          measure(paths, exercise.questions[i], prediction);
    write_predictions(paths, predictions);
    fmt::print("{}", format_predictions(paths, exercise));
  }
  if (asked == 0) throw Error(Verdict::usage, fmt::format("{} has nothing to predict.", what));
  return 0;
}

}  // namespace lockstep::tools

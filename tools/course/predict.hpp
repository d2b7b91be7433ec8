// ./lab predict: what a learner expects, asked before anything is shown, and kept in outputs/predictions.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// One answer to one question. Once measured it stays as it is.
struct Prediction {
  std::string question;  ///< "21.2/1": the exercise, and which of its questions
  std::string date;      ///< UTC, when it was written down
  std::string commit;    ///< of the source then
  double guess = 0;      ///< in the question's unit
  std::optional<double> formula, measured;
};

std::vector<Prediction> read_predictions(const Paths& paths);
/// The prediction for question `number` (from 1) of `exercise`, if it was answered.
std::optional<Prediction> prediction_of(const std::vector<Prediction>& predictions, const Exercise& exercise,
                                        std::size_t number);

/// "you predicted 0.7 ms, measured 0.642 ms (+9 %): Ring all-reduce of …", a line for each question that was answered
/// and measured; else which questions there are. `again`: only how many there are.
std::string format_predictions(const Paths& paths, const Exercise& exercise, bool again = false);

/// The same lines of those questions, of whatever exercise, that the program `target` ("bench_all_reduce") answers when
/// it is given `arguments`: all that the question's own command gives it, and more if they like.
std::string format_predictions_of_run(const Paths& paths, const std::string& target,
                                      const std::vector<std::string>& arguments);

}  // namespace lockstep::tools

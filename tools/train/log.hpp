// The log of a training run: the progress line, the rows of the CSV file, the summary. Kept by rank 0.
#pragma once

#include <chrono>
#include <cstdio>
#include <vector>

#include "common/runtime/ledger/ledger.hpp"
#include "common/support/json/results.hpp"
#include "common/support/stats/stats.hpp"
#include "tools/train/plan.hpp"
#include "tools/train/rate.hpp"

namespace lockstep::train {

/// Rank 0's figures of one step. Seconds are virtual in the simulator of several ranks, else wall-clock.
struct StepRecord {
  int step = 0;  // counts from 1
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double loss_scale = 1;       // of fp16 gradients
  double seconds = 0;          // mean since the last log line
  double bytes_sent = 0;       // by rank 0; mean since the last log line
  double loading_seconds = 0;  // of rank 0's rows; of those loaded ahead, what the step waits for them
  double loaded_bytes = 0;     // of the same rows
};

/// Indices of the values that a rank of a run returns; there are none where the run ended early.
constexpr std::size_t kSquares = 0;    ///< Σ values² of its replica
constexpr std::size_t kBytesSent = 1;  ///< by it, for the steps of this run

struct Validation {
  int step = 0;
  double loss = 0;
};

/// Title of a trace of the run: "Training tiny: 2 replicas × 2 stages (1f1b, 8 microbatches)".
std::string title_of(const TrainPlan& plan);
Context context_of(const TrainPlan& plan);  ///< of its results: what was asked for, and the model

class TrainLog {
 public:
  /// Prints to `out`; a null one prints nothing.
  explicit TrainLog(const TrainPlan& plan, std::FILE* out = stdout);

  /// Before the first step, when rank 0 has sent `bytes_sent`: describes the training to come.
  void begin(int first_step, std::uint64_t bytes_sent);
  /// Steps since the last call, after `seconds` on the run's clock, with rank 0's ledger.
  void steps(std::vector<StepRecord> records, const RankLedger& ledger, double seconds);
  /// Tells how many of all steps so far overflowed, in a run with a loss scale.
  void skipped(int steps) { skipped_ = steps; }
  void validation(int step, double loss);
  void note(const std::string& line);
  /// Prints to standard error, and keeps, something wrong that does not end the run.
  void complain(const std::string& line);
  const std::vector<std::string>& complaints() const { return complaints_; }
  void last_save_failed() { saved_ = false; }
  /// By this computer's clock: training stood still for a save, which became complete so long after its beginning.
  void save_took(double stopped_seconds, double complete_seconds);
  /// The last step reported is the one that diverged; `checkpoint` is the last good one, "none", or "" where none is
  /// wanted.
  void diverged(const std::string& checkpoint);
  /// After `done` steps, by this signal (0: one that another process got), with all saved.
  void stopped(int done, int signal);
  /// The checkpoint that was resumed has all steps.
  void nothing_to_do();
  bool has_diverged() const { return diverged_; }
  /// The program's exit code, 128 + the signal; 0: the run was not stopped.
  int stop_code() const { return stop_code_; }
  bool saved() const { return saved_; }  ///< false where the run's end is in no checkpoint, though it should be

  /// After the run: results, next to the predictions of formulas.
  void summary(const Outcome& outcome) const;
  const std::vector<StepRecord>& records() const { return records_; }
  const std::vector<Validation>& validations() const { return validations_; }
  std::vector<Row> step_rows() const;
  Row result_row(const Outcome& outcome) const;

  bool virtual_time() const { return virtual_time_; }

 private:
  double tokens_per_second() const;
  std::size_t last_steps() const;  // of this run, 10 at most
  double mean_last_losses() const;
  Median step_time() const;  // of log lines; its value is NaN if there are none
  double median_step_seconds() const;
  /// Emulated steps, of which at least two log lines were timed.
  bool tells_quiet() const { return plan_.run.emulate && step_time().samples > 1; }
  double median_loading_seconds() const;
  std::string loading_line() const;
  Rate rate() const;

  void print(const std::string& text) const;
  /// Lines that begin with a label; on a terminal, no wider than it.
  void tell(const std::string& lines) const;

  const TrainPlan& plan_;
  std::FILE* out_;
  bool terminal_;
  bool virtual_time_;
  std::vector<StepRecord> records_;
  std::vector<Validation> validations_;
  std::vector<std::string> complaints_;
  bool saved_ = true;
  bool diverged_ = false;
  int stop_code_ = 0;
  std::vector<double> step_seconds_;  // one mean a log line
  std::vector<double> save_stopped_seconds_, save_complete_seconds_;
  int first_step_ = 0;
  int skipped_ = 0;
  double logged_seconds_ = 0;
  std::uint64_t logged_bytes_ = 0;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace lockstep::train

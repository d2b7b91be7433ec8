// Letters of the runtime to itself: "I have failed", "nothing moves here", "what are you all doing?". How they travel
// is the backend's.
//
// When nothing has moved in a process for options.patience_seconds, it tells rank 0, which asks all ranks what they
// are doing. If every rank waits or has finished, nobody can go on: DEADLOCK. If a rank has been busy with one thing
// since it was last asked: TIMEOUT. Else all is well, and everyone's patience begins anew.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "common/processes/failure.hpp"
#include "common/processes/wait_table.hpp"

namespace lockstep::processes {

struct Letter {
  enum class Kind : int { failure, suspicion, question, answer, all_is_well };
  Kind kind = Kind::failure;
  int from = 0;
  Verdict verdict = Verdict::pass;
  int rank = -1;
  double when = 0;
  Row::State state = Row::State::no_answer;
  int peer = -1;
  double idle_seconds = 0;
  std::uint64_t activity = 0;
  std::string text;

  std::string bytes() const;  // for the other processes of the job, which are one program
  static Letter parse(const std::string& bytes);
};

/// One process's part. `Job` has rank, ranks, options, failed, failure(), learn(), working, idle_seconds() and now().
template <class Job>
class Watch {
 public:
  /// `end_job` ends every process of the job at once, with a message.
  Watch(Job& job, std::function<Row()> describe_me, std::function<void(const std::string&)> end_job)
      : job_(job), describe_me_(std::move(describe_me)), end_job_(std::move(end_job)), last_activity_(job.ranks, 0) {}
  Watch(const Watch&) = delete;
  virtual ~Watch() = default;

  /// Tells the others if this rank has failed.
  void tell_failure() {
    if (!job_.failed || told_) return;
    told_ = true;
    failed_since_ = Clock::now();
    const Failure failure = job_.failure();
    if (failure.origin != job_.rank) return;
    send_all({.kind = Letter::Kind::failure,
              .from = job_.rank,
              .verdict = failure.verdict,
              .rank = failure.rank,
              .when = failure.when,
              .text = failure.message});
  }
  /// Looks at the clock: has nothing moved for too long?
  void look_at_clock() {
    const double patience = job_.options.patience_seconds;
    if (job_.failed) {
      // One says it for all: rank 0, if it can.
      if (told_ && since(failed_since_) > patience + (job_.rank == 0 ? 2 : 3))
        end_job_(job_.failure().message + "\nThe run did not end by itself after that; the job ends.");
      return;
    }
    if (collecting_) return judge();
    if (job_.working.load() > 0) return;
    if (job_.idle_seconds() < patience || since(calm_since_) < patience) return;
    calm_since_ = Clock::now();
    send(0, {.kind = Letter::Kind::suspicion, .from = job_.rank});
  }

 protected:
  virtual void post(int to, const Letter& letter) = 0;  ///< to another rank
  void receive(const Letter& letter) {
    switch (letter.kind) {
      case Letter::Kind::failure:
        job_.learn({letter.verdict, letter.rank, letter.from, letter.when, letter.text});
        break;
      case Letter::Kind::suspicion: collect(); break;
      case Letter::Kind::question: answer(); break;
      case Letter::Kind::answer:
        rows_[letter.from] = {letter.state, letter.peer, letter.idle_seconds, letter.activity, letter.text};
        break;
      case Letter::Kind::all_is_well: calm_since_ = Clock::now(); break;
    }
  }

  Job& job_;

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }
  void send(int to, const Letter& letter) {
    if (to == job_.rank)
      receive(letter);
    else
      post(to, letter);
  }
  void send_all(const Letter& letter) {
    for (int to = 0; to < job_.ranks; ++to)
      if (to != job_.rank) post(to, letter);
    if (letter.kind != Letter::Kind::failure) receive(letter);
  }
  void collect() {
    if (collecting_ || job_.failed) return;
    collecting_ = true;
    asked_ = Clock::now();
    rows_.assign(job_.ranks, Row{});
    send_all({.kind = Letter::Kind::question, .from = job_.rank});
  }
  void answer() {
    const Row row = describe_me_();
    send(0, {.kind = Letter::Kind::answer,
             .from = job_.rank,
             .state = row.state,
             .peer = row.peer,
             .idle_seconds = row.idle_seconds,
             .activity = row.activity,
             .text = row.words});
  }
  void judge() {
    constexpr double kAnswerWithin = 1.0;  // seconds that a rank has to say what it does
    const double patience = job_.options.patience_seconds;
    const Finding finding = processes::judge(rows_, last_activity_, patience);
    if (finding.silent && since(asked_) < kAnswerWithin) return;
    collecting_ = false;
    for (int rank = 0; rank < job_.ranks; ++rank) last_activity_[rank] = rows_[rank].activity;
    if (finding.silent) end_job_(wait_table("TIMEOUT: a rank does not answer", rows_));
    if (finding.verdict == Verdict::pass) return send_all({.kind = Letter::Kind::all_is_well, .from = job_.rank});
    const char* what = finding.verdict == Verdict::timeout ? "TIMEOUT: no progress" : "DEADLOCK: no rank has moved";
    const std::string headline = fmt::format("{} for {} s", what, patience);
    job_.learn({finding.verdict, -1, job_.rank, job_.now(), wait_table(headline, rows_)});
    tell_failure();
  }

  std::function<Row()> describe_me_;
  std::function<void(const std::string&)> end_job_;
  bool told_ = false;
  Clock::time_point calm_since_ = Clock::now();
  Clock::time_point failed_since_;
  // Rank 0 only.
  bool collecting_ = false;
  Clock::time_point asked_;
  std::vector<Row> rows_;
  std::vector<std::uint64_t> last_activity_;
};

}  // namespace lockstep::processes

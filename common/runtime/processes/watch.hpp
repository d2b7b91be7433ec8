// Control messages that the runtime sends to itself: "I have failed", "nothing moves here", "what is every rank
// doing?". The backend transports them.
//
// A process in which nothing moves tells rank 0, which asks all ranks what they are doing.
// - If the backend counts transfers (Row::counted), this happens soon, then at growing intervals. If ranks are stuck
// (wait_table.hpp), rank 0 asks again half a second later. Ranks whose rows have not changed were in that state at one
// moment between the two rounds; if they are still stuck, the verdict is DEADLOCK. Computing ranks and messages in
// flight may take any time.
// - After a process's options.timeout_seconds. If every rank waits or has finished and transfers are not counted, the
// verdict is DEADLOCK. If a rank has been busy with one thing since the last question, or all wait for messages that do
// not arrive, it is TIMEOUT. Otherwise all is well, and every rank's timeout restarts.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/processes/job.hpp"
#include "common/runtime/processes/wait_table.hpp"

namespace lockstep::processes {

struct ControlMessage {
  enum class Kind : int { failure, suspicion, question, answer, all_is_well };
  Kind kind = Kind::failure;
  int from = 0;
  bool timed_out = false;   // for a suspicion: caused by the timeout
  std::uint64_t round = 0;  // for a question and its answer
  Failure failure;          // for a failure
  Row row;                  // for an answer

  std::string bytes() const;
  static ControlMessage parse(const std::string& bytes);
};

/// One process's part in watching.
class Watch {
 public:
  /// `end_job` ends every process of the job at once, with a message.
  Watch(Job& job, std::function<Row()> describe_me, std::function<void(const std::string&)> end_job)
      : job_(job),
        describe_me_(std::move(describe_me)),
        end_job_(std::move(end_job)),
        soon_(std::min(kSoon, job.options.timeout_seconds / 2)),
        last_activity_(job.ranks, 0) {}
  Watch(const Watch&) = delete;
  virtual ~Watch() = default;

  /// Tells the other ranks if this rank has failed.
  void tell_failure() {
    if (!job_.failed || told_) return;
    told_ = true;
    failed_since_ = Clock::now();
    const Failure failure = job_.failure();
    if (failure.origin == job_.rank)
      send_all({.kind = ControlMessage::Kind::failure, .from = job_.rank, .failure = failure});
  }
  /// Checks the clock: acts if nothing has moved for too long.
  void look_at_clock() {
    const double timeout = job_.options.timeout_seconds;
    if (job_.failed) {
      // Only one rank ends the job: rank 0, if it can. After a TIMEOUT, a rank in an endless loop gets no more time.
      const double more = job_.failure().verdict == Verdict::timeout ? 0 : timeout;
      if (told_ && since(failed_since_) > more + (job_.rank == 0 ? 2 : 3))
        end_job_(job_.failure().message + "\nThe run did not stop on its own after that. The job is terminated.");
      return;
    }
    if (round_ != Round::none || suspected_) coordinate();
    if (job_.failed || job_.working.load() > 0) return;
    if (job_.idle_seconds() >= timeout && since(calm_since_) >= timeout)
      suspect(true);
    else if (counts_transfers() && waits_for_long())
      suspect(false);
  }

 protected:
  virtual void post(int to, const ControlMessage& message) = 0;  ///< sends to another rank
  /// True if describe_me() counts transfers, so that a deadlock is found soon.
  virtual bool counts_transfers() const { return false; }
  /// True if rank 0 has every answer it asked for: no message then asks for more, once the clock is no longer checked.
  bool answered() const { return unanswered_ == 0; }
  void receive(const ControlMessage& message) {
    switch (message.kind) {
      case ControlMessage::Kind::failure: job_.learn(message.failure); break;
      case ControlMessage::Kind::suspicion:
        suspected_ = true;
        timed_out_ = timed_out_ || message.timed_out;
        break;
      case ControlMessage::Kind::question: answer(message.round); break;
      case ControlMessage::Kind::answer:
        --unanswered_;
        if (message.round == rounds_) rows_[message.from] = message.row;
        break;
      case ControlMessage::Kind::all_is_well: calm_since_ = Clock::now(); break;
    }
  }

  Job& job_;

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }
  void send(int to, const ControlMessage& message) {
    if (to == job_.rank)
      receive(message);
    else
      post(to, message);
  }
  void send_all(const ControlMessage& message) {
    for (int to = 0; to < job_.ranks; ++to)
      if (to != job_.rank) post(to, message);
    if (message.kind != ControlMessage::Kind::failure) receive(message);
  }
  /// True if this process has been idle long enough to suspect a deadlock: soon_ seconds, doubled after each suspicion.
  bool waits_for_long() {
    const std::uint64_t activity = job_.activity.load();
    if (activity != suspected_activity_) pause_ = soon_;
    suspected_activity_ = activity;
    if (job_.idle_seconds() < soon_ || since(last_suspicion_) < pause_) return false;
    pause_ *= 2;
    return true;
  }
  void suspect(bool timed_out) {
    last_suspicion_ = Clock::now();
    if (timed_out) calm_since_ = last_suspicion_;
    send(0, {.kind = ControlMessage::Kind::suspicion, .from = job_.rank, .timed_out = timed_out});
  }
  void answer(std::uint64_t round) {
    send(0, {.kind = ControlMessage::Kind::answer, .from = job_.rank, .round = round, .row = describe_me_()});
  }

  // Rank 0 only, from here on.

  enum class Round { none, first, pause, second };
  void coordinate() {
    constexpr double kAnswerWithin = 2.0;  // seconds that a rank has to answer
    switch (round_) {
      case Round::none:
        if (since(asked_) >= soon_) ask(Round::first);  // several ranks suspect the same
        break;
      case Round::pause:
        if (since(asked_) >= soon_) ask(Round::second);
        break;
      case Round::first:
      case Round::second:
        if (answered() || since(asked_) >= kAnswerWithin) judge();
        break;
    }
  }
  void ask(Round round) {
    round_ = round;
    suspected_ = false;
    asked_ = Clock::now();
    rows_.assign(job_.ranks, Row{});
    unanswered_ += job_.ranks;
    send_all({.kind = ControlMessage::Kind::question, .from = job_.rank, .round = ++rounds_});
  }
  void judge() {
    std::vector<Row> rows = rows_;
    if (round_ == Round::second)
      for (int rank = 0; rank < job_.ranks; ++rank)
        rows[rank].counted = rows[rank].counted && same(rows[rank], earlier_[rank]);
    const std::vector<int> stuck = deadlocked(rows);
    if (!stuck.empty() && round_ == Round::first) {
      earlier_ = std::move(rows);
      round_ = Round::pause;
      asked_ = Clock::now();
      return;
    }
    round_ = Round::none;
    if (!stuck.empty()) {
      explain_deadlock(rows, stuck);
      return end(Verdict::deadlock, "", rows);
    }
    if (std::exchange(timed_out_, false)) judge_timeout();
  }
  void judge_timeout() {
    const double timeout = job_.options.timeout_seconds;
    if (since(judged_) < timeout / 2) return;  // several ranks timed out
    judged_ = Clock::now();
    const Finding finding = processes::judge(rows_, last_activity_, timeout);
    for (int rank = 0; rank < job_.ranks; ++rank) last_activity_[rank] = rows_[rank].activity;
    if (finding.silent) end_job_(wait_table("TIMEOUT: a rank does not answer", rows_));
    if (finding.verdict == Verdict::pass)
      return send_all({.kind = ControlMessage::Kind::all_is_well, .from = job_.rank});
    const char* what = finding.verdict == Verdict::timeout ? "no progress" : "no rank has moved";
    end(finding.verdict, fmt::format("{} for {} s", what, timeout), rows_);
  }
  /// Ends the run. The message says who waits for whom instead of `otherwise`, or after it if other ranks are busy.
  void end(Verdict verdict, const std::string& otherwise, std::span<const Row> rows) {
    const std::string who = who_waits(rows);
    std::string headline = verdict == Verdict::deadlock && !who.empty() ? who : otherwise;
    if (verdict == Verdict::timeout && !who.empty()) headline += "; " + who;
    job_.learn(
        {verdict, -1, job_.rank, job_.now(), wait_table(fmt::format("{}: {}", to_string(verdict), headline), rows)});
    tell_failure();
  }

  std::function<Row()> describe_me_;
  std::function<void(const std::string&)> end_job_;
  bool told_ = false;
  Clock::time_point calm_since_ = Clock::now();
  Clock::time_point failed_since_;
  static constexpr double kSoon = 0.5;  // seconds
  const double soon_;                   // a rank without activity for this long suspects a deadlock
  double pause_ = 0;                    // between two suspicions
  std::uint64_t suspected_activity_ = 0;
  Clock::time_point last_suspicion_;
  // Rank 0 only.
  bool suspected_ = false;
  bool timed_out_ = false;  // a rank that suspects something has timed out
  Round round_ = Round::none;
  std::uint64_t rounds_ = 0;
  int unanswered_ = 0;
  Clock::time_point asked_;
  Clock::time_point judged_;  // time of the last conclusion after a timeout
  std::vector<Row> rows_;
  std::vector<Row> earlier_;  // rows of the first round
  std::vector<std::uint64_t> last_activity_;
};

}  // namespace lockstep::processes

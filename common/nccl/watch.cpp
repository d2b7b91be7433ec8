#include "common/nccl/watch.hpp"

#include <fmt/format.h>

#include <cstring>

namespace lockstep::nccl {

namespace {
constexpr double kAnswerWithin = 1.0;  // seconds that a rank has to say what it does
}

struct Watch::Letter {
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

  std::string bytes() const {  // the processes of a job are one program
    std::string result(reinterpret_cast<const char*>(this), offsetof(Letter, text));
    return result + text;
  }
  static Letter parse(const std::string& bytes) {
    Letter letter;
    std::memcpy(static_cast<void*>(&letter), bytes.data(), offsetof(Letter, text));
    letter.text = bytes.substr(offsetof(Letter, text));
    return letter;
  }
};

Watch::Watch(Job& job, std::function<Row()> describe_me, std::function<void(const std::string&)> end_job)
    : job_(job), describe_me_(std::move(describe_me)), end_job_(std::move(end_job)), last_activity_(job.ranks, 0) {}

void Watch::send(int to, const Letter& letter) {
  if (to == job_.rank) return receive(letter);
  job_.mail.send(to, {Label::Kind::control, job_.run}, letter.bytes());
}

void Watch::send_all(const Letter& letter) {
  for (int to = 0; to < job_.ranks; ++to)
    if (to != job_.rank) send(to, letter);
  if (letter.kind != Letter::Kind::failure) receive(letter);
}

void Watch::tell_failure() {
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

void Watch::receive(const Letter& letter) {
  switch (letter.kind) {
    case Letter::Kind::failure: job_.learn({letter.verdict, letter.rank, letter.from, letter.when, letter.text}); break;
    case Letter::Kind::suspicion: collect(); break;
    case Letter::Kind::question: answer(); break;
    case Letter::Kind::answer:
      rows_[letter.from] = {letter.state, letter.peer, letter.idle_seconds, letter.activity, letter.text};
      break;
    case Letter::Kind::all_is_well: calm_since_ = Clock::now(); break;
  }
}

void Watch::look() {
  tell_failure();
  for (int from = 0; from < job_.ranks; ++from)
    while (const auto bytes = job_.mail.take(from, {Label::Kind::control, job_.run})) receive(Letter::parse(*bytes));
  const double patience = job_.options.patience_seconds;
  if (job_.failed) {
    // One says it for all: rank 0, if it can.
    if (told_ && seconds_since(failed_since_) > patience + (job_.rank == 0 ? 2 : 3))
      end_job_(job_.failure().message + "\nThe run did not end by itself after that; the job ends.");
    return;
  }
  if (collecting_) return judge();
  if (job_.working.load() > 0) return;
  if (job_.idle_seconds() < patience || seconds_since(calm_since_) < patience) return;
  calm_since_ = Clock::now();
  send(0, {.kind = Letter::Kind::suspicion, .from = job_.rank});
}

void Watch::collect() {
  if (collecting_ || job_.failed) return;
  collecting_ = true;
  asked_ = Clock::now();
  rows_.assign(job_.ranks, Row{});
  send_all({.kind = Letter::Kind::question, .from = job_.rank});
}

void Watch::answer() {
  const Row row = describe_me_();
  send(0, {.kind = Letter::Kind::answer,
           .from = job_.rank,
           .state = row.state,
           .peer = row.peer,
           .idle_seconds = row.idle_seconds,
           .activity = row.activity,
           .text = row.words});
}

void Watch::judge() {
  const processes::Finding finding = processes::judge(rows_, last_activity_, job_.options.patience_seconds);
  if (finding.silent && seconds_since(asked_) < kAnswerWithin) return;
  collecting_ = false;
  for (int rank = 0; rank < job_.ranks; ++rank) last_activity_[rank] = rows_[rank].activity;
  if (finding.silent) end_job_(processes::wait_table("TIMEOUT: a rank does not answer", rows_));
  if (finding.verdict == Verdict::pass) return send_all({.kind = Letter::Kind::all_is_well, .from = job_.rank});
  const char* what = finding.verdict == Verdict::timeout ? "TIMEOUT: no progress" : "DEADLOCK: no rank has moved";
  const std::string headline = fmt::format("{} for {} s", what, job_.options.patience_seconds);
  job_.learn({finding.verdict, -1, job_.rank, job_.now(), processes::wait_table(headline, rows_)});
  tell_failure();
}

}  // namespace lockstep::nccl

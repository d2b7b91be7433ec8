#include "common/mpi/control.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "common/mpi/status.hpp"
#include "common/mpi/wire.hpp"

namespace lockstep::mpi {

namespace {
constexpr int kTag = 1;
constexpr double kAnswerWithin = 1.0;  // seconds that a rank has to say what it does
double seconds_since(std::uint64_t ns) {
  return static_cast<double>(static_cast<std::int64_t>(monotonic_ns() - ns)) * 1e-9;
}
}  // namespace

struct Control::Letter {
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
  char text[16 * 1024] = "";
};

struct Control::Sent {
  std::unique_ptr<Letter> letter;
  MPI_Request request;
};

Control::Control(Job& job, MPI_Comm comm, std::function<Row()> describe_me)
    : job_(job),
      comm_(comm),
      describe_me_(std::move(describe_me)),
      incoming_(std::make_unique<Letter>()),
      calm_since_ns_(monotonic_ns()),
      last_activity_(job.ranks, 0) {
  check(MPI_Irecv(incoming_.get(), sizeof(Letter), MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_, &request_));
}

Control::~Control() {
  if (request_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&request_);
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
  }
  for (Sent& sent : sent_) MPI_Wait(&sent.request, MPI_STATUS_IGNORE);
}

bool Control::quiet() const { return sent_.empty(); }

void Control::send(int to, const Letter& letter) {
  if (to == job_.rank) return receive(letter);
  sent_.push_back({std::make_unique<Letter>(letter), MPI_REQUEST_NULL});
  check(MPI_Isend(sent_.back().letter.get(), sizeof(Letter), MPI_BYTE, to, kTag, comm_, &sent_.back().request));
}

void Control::send_all(const Letter& letter) {
  for (int to = 0; to < job_.ranks; ++to)
    if (to != job_.rank) send(to, letter);
  if (letter.kind != Letter::Kind::failure) receive(letter);
}

void Control::poll() {
  if (job_.failed && !told_) tell_failure();
  int arrived = 1;
  while (arrived) {
    check(MPI_Test(&request_, &arrived, MPI_STATUS_IGNORE));
    if (!arrived) break;
    const auto letter = std::make_unique<Letter>(*incoming_);
    check(MPI_Irecv(incoming_.get(), sizeof(Letter), MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_, &request_));
    receive(*letter);
  }
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    int done = 0;
    MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE);
    sent = done ? sent_.erase(sent) : std::next(sent);
  }
}

void Control::tell_failure() {
  told_ = true;
  failed_since_ns_ = monotonic_ns();
  const Failure failure = job_.failure();
  if (failure.origin != job_.rank) return;
  auto letter = std::make_unique<Letter>();
  letter->kind = Letter::Kind::failure;
  letter->from = job_.rank;
  letter->verdict = failure.verdict;
  letter->rank = failure.rank;
  letter->when = failure.when;
  copy_text(letter->text, sizeof letter->text, failure.message);
  send_all(*letter);
}

void Control::receive(const Letter& letter) {
  switch (letter.kind) {
    case Letter::Kind::failure: job_.learn({letter.verdict, letter.rank, letter.from, letter.when, letter.text}); break;
    case Letter::Kind::suspicion: collect(); break;
    case Letter::Kind::question: answer(); break;
    case Letter::Kind::answer:
      rows_[letter.from] = {letter.state, letter.peer, letter.idle_seconds, letter.activity, letter.text};
      break;
    case Letter::Kind::all_is_well: calm_since_ns_ = monotonic_ns(); break;
  }
}

void Control::watch() {
  const double patience = job_.options.patience_seconds;
  if (job_.failed) {
    if (told_ && seconds_since(failed_since_ns_) > patience + 2)
      end_job(job_.failure().message + "\nThe run did not end by itself after that; the job ends.");
    return;
  }
  if (collecting_) return judge();
  if (job_.working.load() > 0) return;
  const std::uint64_t last = std::max(job_.last_activity_ns.load(), calm_since_ns_);
  if (seconds_since(last) < patience) return;
  calm_since_ns_ = monotonic_ns();
  auto letter = std::make_unique<Letter>();
  letter->kind = Letter::Kind::suspicion;
  letter->from = job_.rank;
  send(0, *letter);
}

void Control::collect() {
  if (collecting_ || job_.failed) return;
  collecting_ = true;
  asked_ns_ = monotonic_ns();
  rows_.assign(job_.ranks, Row{});
  auto letter = std::make_unique<Letter>();
  letter->kind = Letter::Kind::question;
  letter->from = job_.rank;
  send_all(*letter);
}

void Control::answer() {
  const Row row = describe_me_();
  auto letter = std::make_unique<Letter>();
  letter->kind = Letter::Kind::answer;
  letter->from = job_.rank;
  letter->state = row.state;
  letter->peer = row.peer;
  letter->idle_seconds = row.idle_seconds;
  letter->activity = row.activity;
  copy_text(letter->text, sizeof letter->text, row.words);
  send(0, *letter);
}

void Control::judge() {
  const processes::Finding finding = processes::judge(rows_, last_activity_, job_.options.patience_seconds);
  if (finding.silent && seconds_since(asked_ns_) < kAnswerWithin) return;
  collecting_ = false;
  for (int rank = 0; rank < job_.ranks; ++rank) last_activity_[rank] = rows_[rank].activity;
  if (finding.silent) end_job(processes::wait_table("TIMEOUT: a rank does not answer", rows_));
  if (finding.verdict == Verdict::pass) {
    auto letter = std::make_unique<Letter>();
    letter->kind = Letter::Kind::all_is_well;
    letter->from = job_.rank;
    return send_all(*letter);
  }
  const char* what = finding.verdict == Verdict::timeout ? "TIMEOUT: no progress" : "DEADLOCK: no rank has moved";
  const std::string headline = fmt::format("{} for {} s", what, job_.options.patience_seconds);
  job_.learn({finding.verdict, -1, job_.rank, job_.clock.now(), processes::wait_table(headline, rows_)});
  tell_failure();
}

void Control::end_job(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

}  // namespace lockstep::mpi

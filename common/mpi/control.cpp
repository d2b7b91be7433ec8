#include "common/mpi/control.hpp"

#include <cstdio>
#include <cstdlib>

#include "common/mpi/status.hpp"
#include "common/mpi/wire.hpp"

namespace lockstep::mpi {

namespace {
constexpr int kTag = 1;
constexpr std::size_t kMostText = 16 * 1024, kMostBytes = kMostText + sizeof(processes::Letter);
}  // namespace

Control::Control(Job& job, MPI_Comm comm, std::function<Row()> describe_me)
    : Watch(job, std::move(describe_me), end_job), comm_(comm), incoming_(kMostBytes) {
  receive_next();
}

Control::~Control() {
  if (request_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&request_);
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
  }
  for (Sent& sent : sent_) MPI_Wait(&sent.request, MPI_STATUS_IGNORE);
}

void Control::receive_next() {
  check(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_,
                  &request_));
}

void Control::post(int to, const processes::Letter& letter) {
  processes::Letter fits = letter;
  fits.text.resize(std::min(fits.text.size(), kMostText));
  sent_.push_back({fits.bytes(), MPI_REQUEST_NULL});
  Sent& sent = sent_.back();
  check(MPI_Isend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE, to, kTag, comm_, &sent.request));
}

void Control::poll() {
  tell_failure();
  while (true) {
    int arrived = 0;
    MPI_Status status;
    check(MPI_Test(&request_, &arrived, &status));
    if (!arrived) break;
    const std::string bytes(incoming_.data(), bytes_received(status));
    receive_next();
    receive(processes::Letter::parse(bytes));
  }
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    int done = 0;
    MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE);
    sent = done ? sent_.erase(sent) : std::next(sent);
  }
}

void Control::end_job(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

}  // namespace lockstep::mpi

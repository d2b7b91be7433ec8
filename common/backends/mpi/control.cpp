#include "common/backends/mpi/control.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "common/backends/mpi/status.hpp"
#include "common/backends/mpi/wire.hpp"

namespace lockstep::mpi {

namespace {
constexpr int kTag = 1;
constexpr std::size_t kMostText = 16 * 1024;
}  // namespace

Control::Control(Job& job, MPI_Comm comm, std::function<Row()> describe_me)
    : Watch(job, std::move(describe_me), end_job), comm_(comm) {}

Control::~Control() {
  if (request_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&request_);
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
  }
  for (Sent& sent : sent_) MPI_Wait(&sent.request, MPI_STATUS_IGNORE);
}

/// True if incoming_ holds the next message. Probes for a sender and then receives from it: with MPI_ANY_SOURCE, MPICH
/// 4.3 and 5.0 with UCX never see some control messages between hosts.
bool Control::has_arrived() {
  int found = request_ != MPI_REQUEST_NULL;
  if (!found) {
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &found, &status));
    if (!found) return false;
    incoming_.resize(bytes_received(status));
    check(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE, status.MPI_SOURCE, kTag, comm_,
                    &request_));
  }
  int arrived = 0;
  check(MPI_Test(&request_, &arrived, MPI_STATUS_IGNORE));
  return arrived != 0;
}

void Control::post(int to, const processes::ControlMessage& message) {
  processes::ControlMessage fits = message;
  for (std::string* text : {&fits.failure.message, &fits.row.words}) text->resize(std::min(text->size(), kMostText));
  sent_.push_back({fits.bytes(), MPI_REQUEST_NULL});
  Sent& sent = sent_.back();
  check(MPI_Isend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE, to, kTag, comm_, &sent.request));
}

void Control::poll() {
  tell_failure();
  while (has_arrived()) receive(processes::ControlMessage::parse(incoming_));
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    int done = 0;
    MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE);
    sent = done ? sent_.erase(sent) : std::next(sent);
  }
}

void Control::end_job(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
  // MPICH's launcher may lose output written just before.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

}  // namespace lockstep::mpi

// The end of an endpoint: finds unreceived messages and, after a failure, removes pending messages from MPI.
#include <fmt/format.h>

#include <cstring>

#include "common/backends/mpi/endpoint.hpp"
#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

template <class F>
void Endpoint::each_request(TransferBatch& batch, F f) {
  std::size_t receives = 0;
  for (const Transfer& transfer : batch.transfers)
    if (transfer.kind == Transfer::Kind::receive) receives += parts_of(transfer.slice.bytes());
  for (std::size_t i = 0; i < batch.requests.size(); ++i) f(batch.requests[i], i < receives);
  for (std::size_t i = 0; i < batch.messages.size(); ++i) {
    Message& message = batch.messages[i];
    const bool receives_it = batch.transfers[i].kind == Transfer::Kind::receive;
    f(message.head, receives_it);
    f(message.acknowledge, !receives_it);
    for (MPI_Request& request : message.body) f(request, receives_it);
  }
}

void Endpoint::withdraw() {
  if (posted_ == completed_) return;
  each_request(running(), [](MPI_Request& request, bool receives) {
    if (receives && request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  });
}

bool Endpoint::abandoned() {
  while (!take_message(MPI_ANY_SOURCE).empty()) {
  }
  if (posted_ == completed_) return true;
  bool all = true;
  each_request(running(), [&](MPI_Request& request, bool) {
    int done = 1;
    if (request != MPI_REQUEST_NULL) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    all = all && done != 0;
  });
  return all;
}

std::string Endpoint::take_unread(int member) {
  std::string words;
  while (words.empty()) words = take_message(member);  // it has been sent, so it will arrive
  return words;
}

/// Receives a message that has arrived from `source`; returns its sender's side in words, "" if there is none.
std::string Endpoint::take_message(int source) {
  int found = 0;
  MPI_Status status;
  check(MPI_Iprobe(source, MPI_ANY_TAG, comm_, &found, &status));
  if (!found) return {};
  std::vector<char> bytes(bytes_received(status));
  check(MPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_,
                 MPI_STATUS_IGNORE));
  const int from = members()[status.MPI_SOURCE];
  if (status.MPI_TAG != kHead || bytes.size() != sizeof(Header))
    return fmt::format("rank {} sends {} bytes", from, bytes.size());
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return processes::format_sender(from, header);
}

}  // namespace lockstep::mpi

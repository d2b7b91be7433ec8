// How a endpoint ends: what nobody received, and after a failure how its messages are got out of MPI.
#include <fmt/format.h>

#include <cstring>

#include "common/backends/mpi/endpoint.hpp"
#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

template <class F>
void Endpoint::each_request(Batch& batch, F f) {
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
  each_request(*batches_[completed_ - released_], [](MPI_Request& request, bool receives) {
    if (receives && request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  });
}

bool Endpoint::abandoned() {
  while (!take_unread().empty()) {
  }
  if (posted_ == completed_) return true;
  bool all = true;
  each_request(*batches_[completed_ - released_], [&](MPI_Request& request, bool) {
    int done = 1;
    if (request != MPI_REQUEST_NULL) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    all = all && done != 0;
  });
  return all;
}

std::string Endpoint::take_unread() {
  int found = 0;
  MPI_Status status;
  check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, &status));
  if (!found) return {};
  std::vector<char> bytes(bytes_received(status));
  check(MPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_,
                 MPI_STATUS_IGNORE));
  const int from = members_[status.MPI_SOURCE];
  if (status.MPI_TAG != kHead || bytes.size() != sizeof(Header))
    return fmt::format("rank {} sends {} bytes", from, bytes.size());
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return side_in_words(from, "sends", header);
}

}  // namespace lockstep::mpi

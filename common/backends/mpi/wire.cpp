#include "common/backends/mpi/wire.hpp"

#include <algorithm>

#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

std::size_t parts_of(std::size_t bytes) { return bytes == 0 ? 1 : (bytes + kPartBytes - 1) / kPartBytes; }

std::size_t part_bytes(std::size_t bytes, std::size_t part) { return std::min(kPartBytes, bytes - part * kPartBytes); }

void post_send(std::vector<MPI_Request>& requests, const void* data, std::size_t bytes, int peer, MPI_Comm comm) {
  for (std::size_t part = 0; part < parts_of(bytes); ++part) {
    const char* from = static_cast<const char*>(data) + part * kPartBytes;
    requests.push_back(MPI_REQUEST_NULL);
    check(MPI_Isend(from, static_cast<int>(part_bytes(bytes, part)), MPI_BYTE, peer, kBody, comm, &requests.back()));
  }
}

void post_receive(std::vector<MPI_Request>& requests, void* data, std::size_t bytes, int peer, MPI_Comm comm) {
  for (std::size_t part = 0; part < parts_of(bytes); ++part) {
    char* to = static_cast<char*>(data) + part * kPartBytes;
    requests.push_back(MPI_REQUEST_NULL);
    check(MPI_Irecv(to, static_cast<int>(part_bytes(bytes, part)), MPI_BYTE, peer, kBody, comm, &requests.back()));
  }
}

std::size_t bytes_received(const MPI_Status& status) {
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  return static_cast<std::size_t>(count);
}

}  // namespace lockstep::mpi

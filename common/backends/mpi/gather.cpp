#include "common/backends/mpi/gather.hpp"

#include <algorithm>
#include <numeric>

#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

GatherRound gather_round(const std::vector<std::size_t>& lengths, std::size_t done, std::size_t most) {
  const std::size_t share = most / lengths.size();
  GatherRound round;
  for (const std::size_t length : lengths)
    round.counts.push_back(static_cast<int>(std::min(share, length - std::min(done, length))));
  round.offsets.resize(lengths.size());
  std::exclusive_scan(round.counts.begin(), round.counts.end(), round.offsets.begin(), 0);
  return round;
}

std::vector<std::string> gather(MPI_Comm comm, const std::string& mine, bool for_all, std::size_t most) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const std::size_t length = mine.size();
  std::vector<std::size_t> lengths(ranks);
  check(MPI_Allgather(&length, sizeof length, MPI_BYTE, lengths.data(), sizeof length, MPI_BYTE, comm));
  const bool receives = for_all || rank == 0;
  std::vector<std::string> parts(receives ? ranks : 0);
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (std::size_t done = 0; done < longest; done += most / lengths.size()) {
    const auto [counts, offsets] = gather_round(lengths, done, most);
    const char* from = mine.data() + std::min(done, length);
    std::string bytes(receives ? offsets.back() + counts.back() : 0, '\0');
    check(for_all ? MPI_Allgatherv(from, counts[rank], MPI_BYTE, bytes.data(), counts.data(), offsets.data(), MPI_BYTE,
                                   comm)
                  : MPI_Gatherv(from, counts[rank], MPI_BYTE, bytes.data(), counts.data(), offsets.data(), MPI_BYTE, 0,
                                comm));
    for (std::size_t of = 0; of < parts.size(); ++of) parts[of].append(bytes, offsets[of], counts[of]);
  }
  return parts;
}

}  // namespace lockstep::mpi

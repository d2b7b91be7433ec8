#include "common/backends/nccl/seats.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "common/backends/nccl/socket.hpp"
#include "common/backends/nccl/status.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/support/host/host.hpp"

namespace lockstep::nccl {

namespace {

constexpr char kBetween = '\n';

std::string write(const Seat& s) {
  return fmt::format("{}{}{}{}{}{}{}{}{}{}{}{}{}", s.cores, kBetween, s.gpus, kBetween, s.gpu, kBetween, s.gpu_name,
                     kBetween, s.gpu_id, kBetween, s.no_device ? 1 : 0, kBetween, s.trouble);
}

void parse(const std::string& text, Seat& s) {
  std::vector<std::string> fields;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(kBetween, at), text.size());
    fields.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  fields.resize(7);
  s.cores = std::stoi(fields[0]);
  s.gpus = std::stoi(fields[1]);
  s.gpu = std::stoi(fields[2]);
  s.gpu_name = fields[3];
  s.gpu_id = fields[4];
  s.no_device = fields[5] == "1";
  s.trouble = fields[6];
}

/// The same words for every process that sees this GPU, whatever number it has there.
std::string identity(int gpu) {
  cudaDeviceProp p{};
  cuda::check(cudaGetDeviceProperties(&p, gpu), "cudaGetDeviceProperties");
  std::string id = fmt::format("{:x}:{:x}:{:x} ", p.pciDomainID, p.pciBusID, p.pciDeviceID);
  for (char byte : p.uuid.bytes) id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return id;
}

/// Usable cores of this host, whichever of them a launcher has bound this process to.
int cores_of_host() {
  std::vector<int> threads(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  std::iota(threads.begin(), threads.end(), 0);
  return read_host("", threads).usable_cores;
}

/// With fewer GPUs than processes, several get the same; a process may also see only its own (Slurm does that).
void sit_down(Seat& seat) {
  try {
    seat.gpus = cuda::count_gpus();
    seat.gpu = seat.local_rank % seat.gpus;
    seat.gpu_name = cuda::open_gpu(seat.gpu).name;
    seat.gpu_id = identity(seat.gpu);
  } catch (const NoDevice& error) {
    seat.no_device = true;
    seat.trouble = error.what();
  } catch (const Error& error) {
    seat.trouble = error.what();
  }
}

}  // namespace

std::vector<Seat> take_seats(Bootstrap& bootstrap) {
  const std::vector<std::string> hosts = bootstrap.all_gather(host_name());
  std::vector<Seat> seats(hosts.size());
  std::map<std::string, int> on_host;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    seats[rank].host = hosts[rank];
    seats[rank].local_rank = on_host[hosts[rank]]++;
  }
  seats[bootstrap.rank()].cores = cores_of_host();
  sit_down(seats[bootstrap.rank()]);
  const std::vector<std::string> all = bootstrap.all_gather(write(seats[bootstrap.rank()]));
  for (std::size_t rank = 0; rank < all.size(); ++rank) parse(all[rank], seats[rank]);
  return seats;
}

Objection objection(const std::vector<Seat>& seats, int nccl_version, bool may_share_gpus) {
  for (std::size_t rank = 0; rank < seats.size(); ++rank)
    if (!seats[rank].trouble.empty())
      return {seats.size() == 1 ? seats[rank].trouble : fmt::format("rank {}: {}", rank, seats[rank].trouble),
              seats[rank].no_device};
  if (nccl_version < kOldestNccl)
    return {fmt::format("NCCL {} is too old: this program needs {} or later, which can split communicators",
                        version_text(nccl_version), version_text(kOldestNccl))};
  if (nccl_version >= kSharingNccl && may_share_gpus) return {};
  std::map<std::pair<std::string, std::string>, std::size_t> owners;
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    const Seat& seat = seats[rank];
    const auto [owner, fresh] = owners.try_emplace({seat.host, seat.gpu_id}, rank);
    if (fresh) continue;
    std::size_t ranks_here = 0;
    std::set<std::string> gpus_here;
    for (const Seat& each : seats)
      if (each.host == seat.host) {
        ++ranks_here;
        gpus_here.insert(each.gpu_id);
      }
    return {fmt::format(
        "ranks {} and {} would share GPU {} of {} ({} ranks there, {} GPU{}), and NCCL {} gives each rank a GPU of its "
        "own: start at most {} rank{} on that host, or run any number of ranks on one GPU with --backend cuda{}",
        owner->second, rank, seat.gpu, seat.host, ranks_here, gpus_here.size(), gpus_here.size() == 1 ? "" : "s",
        version_text(nccl_version), gpus_here.size(), gpus_here.size() == 1 ? "" : "s",
        nccl_version >= kSharingNccl ? " (or set NCCL_MULTI_RANK_GPU_ENABLE=1)"
                                     : fmt::format(" (NCCL {} and later can share with NCCL_MULTI_RANK_GPU_ENABLE=1)",
                                                   version_text(kSharingNccl)))};
  }
  return {};
}

std::string binding_in_words(const std::vector<Seat>& seats) {
  std::string text;
  for (std::size_t rank = 0; rank < seats.size(); ++rank)
    text += fmt::format("rank {}: {}, GPU {} of {} ({})\n", rank, seats[rank].host, seats[rank].gpu, seats[rank].gpus,
                        seats[rank].gpu_name);
  return text;
}

}  // namespace lockstep::nccl

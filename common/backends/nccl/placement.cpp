#include "common/backends/nccl/placement.hpp"

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

std::string write(const Placement& s) {
  return fmt::format("{}{}{}{}{}{}{}{}{}{}{}{}{}", s.cores, kBetween, s.gpus, kBetween, s.gpu, kBetween, s.gpu_name,
                     kBetween, s.gpu_id, kBetween, s.no_device ? 1 : 0, kBetween, s.trouble);
}

void parse(const std::string& text, Placement& s) {
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

/// Identifies a GPU: the same text in every process that sees it, whatever its index there.
std::string identity(int gpu) {
  cudaDeviceProp p{};
  cuda::check(cudaGetDeviceProperties(&p, gpu), "cudaGetDeviceProperties");
  std::string id = fmt::format("{:x}:{:x}:{:x} ", p.pciDomainID, p.pciBusID, p.pciDeviceID);
  for (char byte : p.uuid.bytes) id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return id;
}

/// Usable cores of this host, regardless of the affinity a launcher gave this process.
int cores_of_host() {
  std::vector<int> threads(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  std::iota(threads.begin(), threads.end(), 0);
  return read_host("", threads).usable_cores;
}

/// Chooses the GPU of this process. With fewer GPUs than processes, several share one; a process may also see only its
/// own (Slurm).
void choose_gpu(Placement& place) {
  try {
    place.gpus = cuda::count_gpus();
    place.gpu = place.local_rank % place.gpus;
    place.gpu_name = cuda::open_gpu(place.gpu).name;
    place.gpu_id = identity(place.gpu);
  } catch (const NoDevice& error) {
    place.no_device = true;
    place.trouble = error.what();
  } catch (const Error& error) {
    place.trouble = error.what();
  }
}

}  // namespace

std::vector<Placement> gather_placements(Bootstrap& bootstrap, int local_rank) {
  const std::vector<std::string> hosts = bootstrap.all_gather(host_name());
  std::vector<Placement> places(hosts.size());
  std::map<std::string, int> on_host;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    places[rank].host = hosts[rank];
    places[rank].local_rank = on_host[hosts[rank]]++;
  }
  if (local_rank >= 0) places[bootstrap.rank()].local_rank = local_rank;
  places[bootstrap.rank()].cores = cores_of_host();
  choose_gpu(places[bootstrap.rank()]);
  const std::vector<std::string> all = bootstrap.all_gather(write(places[bootstrap.rank()]));
  for (std::size_t rank = 0; rank < all.size(); ++rank) parse(all[rank], places[rank]);
  return places;
}

Objection objection(const std::vector<Placement>& places, int nccl_version, bool may_share_gpus) {
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    if (!places[rank].trouble.empty())
      return {places.size() == 1 ? places[rank].trouble : fmt::format("rank {}: {}", rank, places[rank].trouble),
              places[rank].no_device};
  if (nccl_version < kOldestNccl)
    return {fmt::format("NCCL {} is too old: this program needs {} or later, which can split communicators",
                        version_text(nccl_version), version_text(kOldestNccl))};
  if (nccl_version >= kSharingNccl && may_share_gpus) return {};
  std::map<std::pair<std::string, std::string>, std::size_t> owners;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const Placement& place = places[rank];
    const auto [owner, fresh] = owners.try_emplace({place.host, place.gpu_id}, rank);
    if (fresh) continue;
    std::size_t ranks_here = 0;
    std::set<std::string> gpus_here;
    for (const Placement& each : places)
      if (each.host == place.host) {
        ++ranks_here;
        gpus_here.insert(each.gpu_id);
      }
    return {fmt::format(
        "ranks {} and {} would share GPU {} of {} ({} ranks there, {} GPU{}), and NCCL {} gives each rank a GPU of its "
        "own: start at most {} rank{} on that host, or run any number of ranks on one GPU with --backend cuda{}",
        owner->second, rank, place.gpu, place.host, ranks_here, gpus_here.size(), gpus_here.size() == 1 ? "" : "s",
        version_text(nccl_version), gpus_here.size(), gpus_here.size() == 1 ? "" : "s",
        nccl_version >= kSharingNccl ? " (or set NCCL_MULTI_RANK_GPU_ENABLE=1)"
                                     : fmt::format(" (NCCL {} and later can share with NCCL_MULTI_RANK_GPU_ENABLE=1)",
                                                   version_text(kSharingNccl)))};
  }
  return {};
}

std::string format_binding(const std::vector<Placement>& places) {
  std::string text;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    text += fmt::format("rank {}: {}, GPU {} of {} ({})\n", rank, places[rank].host, places[rank].gpu,
                        places[rank].gpus, places[rank].gpu_name);
  return text;
}

}  // namespace lockstep::nccl

#include "common/backends/mpi/ports.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

namespace {
void require_one_host(MPI_Comm comm, int ranks) {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
  int here = 0;
  MPI_Comm_size(host, &here);
  MPI_Comm_free(&host);
  int fewest = 0;
  check(MPI_Allreduce(&here, &fewest, 1, MPI_INT, MPI_MIN, comm));
  if (fewest != ranks)
    throw Error(Verdict::usage, "emulation needs all ranks on one host: its links share that host's clock and memory");
}

void require_fit(const Machine& machine, int ranks) {
  const int holds = machine.capacity();
  if (holds != 0 && ranks > holds)
    throw Error(Verdict::usage,
                fmt::format("{} ranks do not fit machine {}, which holds {}", ranks, machine.name, holds));
  if (2 * machine.levels.size() > Path{}.hops.size())
    throw Error(Verdict::usage,
                fmt::format("machine {} has too many link levels: {}", machine.name, machine.levels.size()));
}
}  // namespace

Ports::Ports(const Machine& machine, MPI_Comm comm) : machine_(machine) {
  int rank = 0;
  MPI_Comm_size(comm, &ranks_);
  MPI_Comm_rank(comm, &rank);
  require_fit(machine, ranks_);
  require_one_host(comm, ranks_);
  const std::size_t ports = 2 * machine.levels.size() * ranks_;
  const auto bytes = static_cast<MPI_Aint>(rank == 0 ? sizeof(Table) + ports * sizeof(double) : 0);
  void* own = nullptr;
  check(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm, &own, &window_));
  MPI_Aint size = 0;
  int unit = 1;
  check(MPI_Win_shared_query(window_, 0, &size, &unit, &table_));
  if (rank == 0) {
    table_->locked.store(0);
    std::fill_n(table_->free_at, ports, 0.0);
  }
  check(MPI_Barrier(comm));
}

Ports::~Ports() { MPI_Win_free(&window_); }

Path Ports::path(int from, int to) const {
  const int level = machine_.level_between(from, to);
  Path path;
  path.alpha = machine_.alpha(level);
  path.beta = machine_.beta(level);
  for (int i = 0; i <= level; ++i) {
    const double seconds_per_byte = 1 / machine_.levels[i].bytes_per_second;
    const Machine::LevelPorts crossed = machine_.ports(i, from, to);
    const int out = 2 * i * ranks_ + crossed.egress;
    const int in = (crossed.bus ? 2 * i : 2 * i + 1) * ranks_ + crossed.ingress;
    path.hops[path.count++] = {out, seconds_per_byte};
    if (in != out) path.hops[path.count++] = {in, seconds_per_byte};
  }
  return path;
}

std::optional<double> Ports::grant(const Path& path, double bytes, double ready, double now) {
  if (ready > now) return {};
  while (table_->locked.exchange(1, std::memory_order_acquire) != 0) sched_yield();
  double start = ready;
  for (int i = 0; i < path.count; ++i) start = std::max(start, table_->free_at[path.hops[i].port]);
  const bool granted = start <= now;
  if (granted)
    for (int i = 0; i < path.count; ++i)
      table_->free_at[path.hops[i].port] = start + bytes * path.hops[i].seconds_per_byte;
  table_->locked.store(0, std::memory_order_release);
  return granted ? std::optional<double>(start) : std::nullopt;
}

}  // namespace lockstep::mpi

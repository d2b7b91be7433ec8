// Gloo's all-reduce, which PyTorch uses between CPUs, as another baseline on MPI. It has its own messages, over TCP,
// and its own threads. It runs in separate processes (gloo_rank.cpp), one per rank of MPI; MPI only exchanges their
// addresses. The ranks sleep while they are measured, and the processes end before the ranks continue, so that neither
// takes the other's cores.
#include <fmt/format.h>
#include <gloo/config.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <ctime>

#include "bench/programs/child_process.hpp"
#include "bench/programs/gloo_socket.hpp"
#include "bench/programs/library_collectives.hpp"
#include "common/backends/mpi/gather.hpp"
#include "common/backends/mpi/rank.hpp"
#include "common/backends/mpi/status.hpp"

namespace lockstep::bench {
namespace {

std::array<int, 2> connected_sockets() {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw std::runtime_error("no sockets are left");
  return sockets;
}

/// A process that runs gloo_rank, with a socket to it as its standard input.
class GlooProcess {
 public:
  explicit GlooProcess(const std::vector<std::string>& words)
      : sockets_(connected_sockets()), process_(words, [&](posix_spawn_file_actions_t* actions) {
          posix_spawn_file_actions_adddup2(actions, sockets_[1], 0);
        }) {
    close(sockets_[1]);
  }
  ~GlooProcess() { close(sockets_[0]); }
  GlooProcess(const GlooProcess&) = delete;
  GlooProcess& operator=(const GlooProcess&) = delete;

  int socket() const { return sockets_[0]; }

 private:
  std::array<int, 2> sockets_;
  ChildProcess process_;
};

/// The loopback address if one host has all ranks; otherwise the address of the host's name.
std::string address(Rank me) {
  int ranks = 0, here = 0;
  static_cast<mpi::MpiRank&>(me.backend()).with_world([&](MPI_Comm world) {
    MPI_Comm host = MPI_COMM_NULL;
    mpi::check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    MPI_Comm_size(world, &ranks);
    MPI_Comm_size(host, &here);
    MPI_Comm_free(&host);
  });
  return here == ranks ? "127.0.0.1" : "-";
}

/// Exchanges the addresses of the ranks' processes.
void tell_addresses(Rank me, const GlooProcess& process) {
  const std::string key = read_text(process.socket()), value = read_text(process.socket());
  std::vector<std::string> keys, values;
  static_cast<mpi::MpiRank&>(me.backend()).with_world([&](MPI_Comm world) {
    keys = mpi::gather(world, key);
    values = mpi::gather(world, value);
  });
  write_number(process.socket(), keys.size());
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    write_text(process.socket(), keys[rank]);
    write_text(process.socket(), values[rank]);
  }
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Apart measure_apart(Rank me, std::size_t elements, const Plan& plan) {
  const std::string where = address(me);
  try {
    const GlooProcess process({LOCKSTEP_GLOO_PROGRAM, std::to_string(me.rank()), std::to_string(me.size()),
                               std::to_string(elements), std::to_string(plan.warm_up), std::to_string(plan.samples),
                               fmt::format("{}", plan.budget_seconds), where});
    Apart apart;
    for (;;) {
      const double begin = me.now(), cpu = cpu_seconds();
      const auto message = static_cast<GlooMessage>(read_number(process.socket()));  // asleep
      apart.waiting_cpu_share = (cpu_seconds() - cpu) / (me.now() - begin);
      if (message == GlooMessage::error) throw std::runtime_error(read_text(process.socket()));
      if (message == GlooMessage::samples) break;
      tell_addresses(me, process);
    }
    apart.right = read_number(process.socket()) == 1;
    apart.seconds.resize(read_number(process.socket()));
    read_bytes(process.socket(), apart.seconds.data(), apart.seconds.size() * sizeof(double));
    return apart;
  } catch (const Error&) {  // on another rank
    throw;
  } catch (const std::runtime_error& error) {
    throw Error(Verdict::fail,
                fmt::format("Gloo failed (leave gloo out of --algorithm to run the others): {}", error.what()));
  }
}

}  // namespace

std::vector<OtherLibrary> other_libraries() {
  return {{"gloo",
           fmt::format("{}.{}.{}{}: gloo::allreduce, its default algorithm (a ring in segments), over TCP (on one host "
                       "over its loopback), where MPI's messages go through shared memory; in processes of its own, "
                       "while MPI's sleep",
                       GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH, LOCKSTEP_GLOO_PACKAGE),
           measure_apart}};
}

}  // namespace lockstep::bench

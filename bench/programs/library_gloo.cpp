// Gloo's all-reduce beside MPI's own: what PyTorch takes between CPUs. It has its own messages, over TCP; here MPI only
// tells the ranks each other's addresses.
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "bench/programs/library_all_reduce.hpp"
#include "common/backends/mpi/gather.hpp"
#include "common/backends/mpi/rank.hpp"
#include "common/backends/mpi/status.hpp"

namespace lockstep::bench {
namespace {

/// Where Gloo's ranks leave addresses for each other. All of them set as often, so a `set` is an all-gather.
class MpiStore final : public gloo::rendezvous::Store {
 public:
  explicit MpiStore(MPI_Comm world) : world_(world) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const std::vector<std::string> keys = mpi::gather(world_, key);
    const std::vector<std::string> values = mpi::gather(world_, {data.begin(), data.end()});
    for (std::size_t rank = 0; rank < keys.size(); ++rank)
      entries_[keys[rank]] = {values[rank].begin(), values[rank].end()};
  }
  std::vector<char> get(const std::string& key) override { return entries_.at(key); }
  using Store::wait;
  void wait(const std::vector<std::string>&) override {}  // what all have set is here

 private:
  MPI_Comm world_;
  std::map<std::string, std::vector<char>> entries_;
};

/// The loopback where one host has all ranks; else the address that the host's name has. GLOO_SOCKET_IFNAME names
/// another interface, as in PyTorch.
gloo::transport::tcp::attr address(MPI_Comm world) {
  gloo::transport::tcp::attr address;
  MPI_Comm host = MPI_COMM_NULL;
  mpi::check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
  int ranks = 0, here = 0;
  MPI_Comm_size(world, &ranks);
  MPI_Comm_size(host, &here);
  MPI_Comm_free(&host);
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"))
    address.iface = interface;
  else if (here == ranks)
    address.hostname = "127.0.0.1";
  return address;
}

/// Gloo takes its store by reference, and from 2025 on as a shared pointer.
template <typename Context, typename Device>
void connect_full_mesh(Context& context, std::shared_ptr<MpiStore> store, Device& device) {
  if constexpr (requires { context.connectFullMesh(store, device); })
    context.connectFullMesh(std::move(store), device);
  else
    context.connectFullMesh(*store, device);
}

std::shared_ptr<gloo::Context> connected(Rank me) {
  auto context = std::make_shared<gloo::rendezvous::Context>(me.rank(), me.size());
  static_cast<mpi::MpiRank&>(me.backend()).with_world([&](MPI_Comm world) {
    try {
      auto device = gloo::transport::tcp::CreateDevice(address(world));
      connect_full_mesh(*context, std::make_shared<MpiStore>(world), device);
    } catch (const std::exception& error) {
      throw Error(Verdict::fail, fmt::format("Gloo cannot connect rank {} (--algorithm without gloo goes on): {}",
                                             me.rank(), error.what()));
    }
  });
  return context;
}

std::function<void(Rank, Slice)> connect(Rank me) {
  if (me.size() == 1) return [](Rank, const Slice&) {};
  return [context = connected(me)](Rank, const Slice& data) {
    if (data.size() == 0) return;
    gloo::AllreduceOptions options(context);
    options.setOutput(static_cast<float*>(data.data()), data.size());  // and its input
    options.setReduceFunction(
        [](void* sum, const void* a, const void* b, std::size_t count) { gloo::sum<float>(sum, a, b, count); });
    gloo::allreduce(options);
  };
}

}  // namespace

std::vector<OtherLibrary> other_libraries() {
  return {{"gloo",
           fmt::format("{}.{}.{}{}: gloo::allreduce, its default algorithm (a ring in segments), over TCP (on one host "
                       "over its loopback), where MPI's messages go through shared memory",
                       GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH, LOCKSTEP_GLOO_PACKAGE),
           connect}};
}

}  // namespace lockstep::bench

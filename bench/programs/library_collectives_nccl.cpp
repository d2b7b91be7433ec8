// NCCL's collectives: ncclAllReduce, ncclReduceScatter, ncclAllGather, ncclBroadcast; an all-to-all is a group of its
// sends and receives, as in nccl-tests.
#include <nccl.h>

#include "bench/programs/library_collectives.hpp"
#include "common/backends/nccl/rank.hpp"
#include "common/backends/nccl/status.hpp"
#include "common/chunk.hpp"

namespace lockstep::bench {
namespace {

void all_to_all(Rank me, const Arrays& arrays, ncclComm_t world, cudaStream_t stream) {
  const int p = me.size();
  nccl::check(ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer < p; ++peer) {
    const Slice outgoing = chunk(arrays.from, peer, p), incoming = chunk(arrays.to, peer, p);
    nccl::check(ncclSend(outgoing.data(), outgoing.size(), ncclFloat, peer, world, stream), "ncclSend");
    nccl::check(ncclRecv(incoming.data(), incoming.size(), ncclFloat, peer, world, stream), "ncclRecv");
  }
  nccl::check(ncclGroupEnd(), "ncclGroupEnd");
}

void call(Collective collective, Rank me, const Arrays& arrays, ncclComm_t world, cudaStream_t stream) {
  const void* from = arrays.from.data();
  void* to = arrays.to.data();
  switch (collective) {
    case Collective::all_reduce:
      return nccl::check(ncclAllReduce(from, to, arrays.to.size(), ncclFloat, ncclSum, world, stream), "ncclAllReduce");
    case Collective::reduce_scatter:
      return nccl::check(ncclReduceScatter(from, to, arrays.to.size(), ncclFloat, ncclSum, world, stream),
                         "ncclReduceScatter");
    case Collective::all_gather:
      return nccl::check(ncclAllGather(from, to, arrays.from.size(), ncclFloat, world, stream), "ncclAllGather");
    case Collective::broadcast:
      return nccl::check(ncclBroadcast(from, to, arrays.to.size(), ncclFloat, 0, world, stream), "ncclBroadcast");
    case Collective::all_to_all: return all_to_all(me, arrays, world, stream);
  }
}

}  // namespace

std::optional<CollectiveAlgorithm> library_collective(Collective collective) {
  const auto act = [=](Rank me, const Arrays& arrays) {
    static_cast<nccl::NcclRank&>(me.backend()).with_world([&](ncclComm_t world, cudaStream_t stream) {
      call(collective, me, arrays, world, stream);
    });
  };
  return CollectiveAlgorithm{.name = "library", .act = act, .counted = false};
}

std::vector<OtherLibrary> other_libraries() { return {}; }

}  // namespace lockstep::bench

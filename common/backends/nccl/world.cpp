// NCCL itself, for what stands beside the contract: a library's own collective, as a reference to beat.
#include "common/backends/nccl/rank.hpp"

namespace lockstep::nccl {

void NcclRank::with_world(const std::function<void(ncclComm_t, cudaStream_t)>& f, Location where) {
  Queue* main = enter(0, where);
  if (!main) return;
  std::lock_guard gate(job_.gate);
  Communicator& world = *endpoint(0, 0).communicator();
  if (!world.handle) return;
  world.stream.wait(main->here());
  f(world.handle, world.stream.get());
  wait_until_ready(world.handle, "a collective of NCCL", job_.limit());
  main->stream.wait(job_.events.record(world.stream.get()));
}

}  // namespace lockstep::nccl

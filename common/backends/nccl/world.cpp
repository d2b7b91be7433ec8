// Access to NCCL itself, for uses outside the contract: a library's own collective, as a reference to beat.
#include "common/backends/nccl/rank.hpp"

namespace lockstep::nccl {

void NcclRank::with_world(const std::function<void(ncclComm_t, cudaStream_t)>& f, Location where) {
  Queue* main = enter(0, where);
  if (!main) return;
  Endpoint& endpoint = main_of(*groups_[0]);
  Communicator& world = *endpoint.communicator();
  if (!world.handle) return;
  const Reservation here(job_, endpoint);
  world.stream.wait(main->here());
  f(world.handle, world.stream.get());
  wait_until_ready(world.handle, "a collective of NCCL", job_.limit());
  main->stream.wait(job_.events.record(world.stream.get()));
}

}  // namespace lockstep::nccl

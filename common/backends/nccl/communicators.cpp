#include "common/backends/nccl/communicators.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "common/backends/nccl/load.hpp"
#include "common/backends/nccl/status.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::nccl {

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Calls ncclCommAbort on all at once, because work of one may wait for work of another; false if a call does not
/// return.
bool abort_all(const std::vector<ncclComm_t>& handles, Clock::time_point until) {
  int gpu = 0;
  cuda::check(cudaGetDevice(&gpu), "cudaGetDevice");
  auto left = std::make_shared<std::atomic<std::size_t>>(handles.size());
  for (ncclComm_t handle : handles)
    std::thread([=] {
      (void)cudaSetDevice(gpu);
      (void)ncclCommAbort(handle);
      left->fetch_sub(1);
    }).detach();
  while (left->load() > 0) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

Communicators::~Communicators() {
  for (auto& [name, communicator] : known_)
    if (communicator->handle) (void)ncclCommDestroy(communicator->handle);
}

std::shared_ptr<Communicator> Communicators::find(const Name& name) {
  const auto known = known_.find(name);
  return known == known_.end() ? nullptr : known->second;
}

Communicators::Handle Communicators::new_handle() {
  return unfinished_.emplace_back(std::make_shared<ncclComm_t>(nullptr));
}

std::shared_ptr<Communicator> Communicators::keep(Name name, const Handle& handle) {
  auto fresh = std::make_shared<Communicator>();
  fresh->members = name.first;
  fresh->queue = name.second;
  fresh->handle = handle ? *handle : nullptr;
  std::erase(unfinished_, handle);
  return known_[std::move(name)] = std::move(fresh);
}

std::shared_ptr<Communicator> Communicators::world(std::uint64_t run, int ranks, const Limit& limit) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const Name name{members, "main"};
  if (auto known = find(name)) return known;
  if (ranks == 1) return keep(name, nullptr);
  ncclUniqueId id{};
  if (control_.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string mine(id.internal, control_.rank() == 0 ? sizeof id.internal : 0);
  const auto all = all_gather(control_, {.run = run, .key = key_of(members, "unique id")}, members, mine, limit.stop);
  if (all.empty()) throw Unwind{};
  std::memcpy(id.internal, all.front().data(), sizeof id.internal);
  ncclConfig_t config = configuration();
  const Handle handle = new_handle();
  check(ncclCommInitRankConfig(handle.get(), ranks, id, control_.rank(), &config), "ncclCommInitRankConfig");
  wait_until_ready(*handle, "ncclCommInitRankConfig", limit);
  const auto fresh = keep(name, handle);
  connect_all(*fresh, control_.rank(), limit);
  return fresh;
}

std::shared_ptr<Communicator> Communicators::split(Communicator& parent, Label label, int color, int key,
                                                   const std::vector<int>& members, const std::string& queue,
                                                   const Limit& limit) {
  const Name name{members, queue};
  std::shared_ptr<Communicator> known = color < 0 ? nullptr : find(name);
  if (!known && members.size() == 1) known = keep(name, nullptr);
  // Members of one group agree on whether they have it; the others learn whether to take part.
  const auto all = all_gather(control_, label, parent.members, color >= 0 && !known ? "new" : "", limit.stop);
  if (all.empty()) throw Unwind{};
  if (std::none_of(all.begin(), all.end(), [](const std::string& word) { return word == "new"; })) return known;
  ncclConfig_t config = configuration();
  const int choice = color < 0 || known ? NCCL_SPLIT_NOCOLOR : color;
  const Handle handle = new_handle();
  check(ncclCommSplit(parent.handle, choice, key, handle.get(), &config), "ncclCommSplit");
  wait_until_ready(parent.handle, "ncclCommSplit", limit);
  if (choice == NCCL_SPLIT_NOCOLOR) {
    std::erase(unfinished_, handle);
    return known;
  }
  wait_until_ready(*handle, "ncclCommSplit", limit);
  const auto fresh = keep(name, handle);
  const auto me = std::find(members.begin(), members.end(), control_.rank());
  connect_all(*fresh, static_cast<int>(me - members.begin()), limit);
  return fresh;
}

/// Sends a byte from every rank to every rank. NCCL connects two ranks at their first message, and blocks the host
/// until both are there. Doing so here, where all ranks are, keeps it from happening in the middle of a program, and
/// reveals GPUs that cannot reach each other.
void Communicators::connect_all(Communicator& of, int rank, const Limit& limit) {
  const int ranks = static_cast<int>(of.members.size());
  const cudaStream_t stream = of.stream.get();
  const std::size_t half = of.members.size();
  struct Memory {  // freed in the stream's order, also when the run fails
    char* bytes = nullptr;
    cudaStream_t stream;
    ~Memory() { (void)cudaFreeAsync(bytes, stream); }
  } memory{.stream = stream};
  cuda::check(cudaMallocAsync(reinterpret_cast<void**>(&memory.bytes), 2 * half, stream), "cudaMallocAsync");
  cuda::check(cudaMemsetAsync(memory.bytes, 0, 2 * half, stream), "cudaMemsetAsync");
  GroupOfCalls group;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    check(ncclSend(memory.bytes + peer, 1, ncclInt8, peer, of.handle, stream), "ncclSend");
    check(ncclRecv(memory.bytes + half + peer, 1, ncclInt8, peer, of.handle, stream), "ncclRecv");
  }
  group.end();
  wait_until_ready(of.handle, "ncclGroupEnd", limit);
  const cuda::Event done = events_.record(stream);
  const auto until = in_seconds(limit.seconds);
  while (!done.done()) {
    if (limit.stop()) throw Unwind{};
    if (Clock::now() > until)
      throw Error(
          Verdict::timeout,
          fmt::format("TIMEOUT: ranks {} are connected, but within {:g} s data did not arrive between all of them "
                      "({}). Set NCCL_P2P_DISABLE=1 or NCCL_IB_DISABLE=1 to find out which path between them is broken",
                      fmt::join(of.members, ", "), limit.seconds, cuda::place()));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void Communicators::note(const std::set<const Communicator*>& of_run, int queues) {
  Load load{.ctas = most_ctas(), .channels = hardware_channels()};
  int gpu = 0;
  cuda::check(cudaGetDevice(&gpu), "cudaGetDevice");
  cuda::check(cudaDeviceGetAttribute(&load.multiprocessors, cudaDevAttrMultiProcessorCount, gpu),
              "cudaDeviceGetAttribute");
  load.streams = queues + static_cast<int>(of_run.size());
  load.communicators = static_cast<int>(std::count_if(of_run.begin(), of_run.end(), [](auto* c) { return c->handle; }));
  if (load.streams > most_.streams) most_ = load;
  if (std::exchange(warned_, warned_ || !load.warning().empty()) || control_.rank() != 0) return;
  std::fputs(load.warning().c_str(), stderr);
}

bool Communicators::abort(int ranks, double seconds) {
  const auto until = in_seconds(seconds);
  std::vector<ncclComm_t> handles;
  std::vector<std::shared_ptr<Communicator>> going;  // keeps streams until NCCL's work on them has ended
  std::erase_if(known_, [&](const auto& entry) {
    Communicator& each = *entry.second;
    if (*std::max_element(each.members.begin(), each.members.end()) >= ranks) return false;
    if (each.handle) handles.push_back(std::exchange(each.handle, nullptr));
    going.push_back(entry.second);
    return true;
  });
  if (!abort_all(handles, until)) return false;
  // A split ends with its parent; only then are the handles that it has made valid.
  handles.clear();
  for (const Handle& handle : std::exchange(unfinished_, {}))
    if (*handle) handles.push_back(*handle);
  return abort_all(handles, until);
}

}  // namespace lockstep::nccl

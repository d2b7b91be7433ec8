#include "common/nccl/communicators.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/cuda/status.hpp"
#include "common/nccl/status.hpp"

namespace lockstep::nccl {

namespace {

using Clock = std::chrono::steady_clock;

ncclConfig_t configuration() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;  // children use their parent's buffers and connections
  return config;
}

}  // namespace

void settle(ncclComm_t handle, const char* call, const std::function<bool()>& stop) {
  ncclResult_t state = ncclInProgress;
  for (int looks = 0; state == ncclInProgress; ++looks) {
    check(ncclCommGetAsyncError(handle, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) break;
    if (stop()) throw Unwind{};
    if (looks > 100) std::this_thread::sleep_for(std::chrono::microseconds(looks > 1000 ? 1000 : 50));
  }
  check(state, call);
}

Communicators::~Communicators() {
  for (auto& [name, communicator] : known_)
    if (communicator->handle) (void)ncclCommDestroy(communicator->handle);
}

std::shared_ptr<Communicator> Communicators::find(const Name& name) {
  const auto known = known_.find(name);
  return known == known_.end() ? nullptr : known->second;
}

std::shared_ptr<Communicator> Communicators::keep(Name name, ncclComm_t handle) {
  auto fresh = std::make_shared<Communicator>();
  fresh->members = name.first;
  fresh->queue = name.second;
  fresh->handle = handle;
  std::erase(unfinished_, handle);
  return known_[std::move(name)] = std::move(fresh);
}

std::shared_ptr<Communicator> Communicators::world(std::uint64_t run, int ranks, const std::function<bool()>& stop) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const Name name{members, "main"};
  if (auto known = find(name)) return known;
  if (ranks == 1) return keep(name, nullptr);
  ncclUniqueId id{};
  if (mail_.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string mine(id.internal, mail_.rank() == 0 ? sizeof id.internal : 0);
  const auto all = all_gather(mail_, {.run = run, .key = key_of(members, "unique id")}, members, mine, stop);
  if (all.empty()) throw Unwind{};
  std::memcpy(id.internal, all.front().data(), sizeof id.internal);
  ncclConfig_t config = configuration();
  ncclComm_t handle = nullptr;
  check(ncclCommInitRankConfig(&handle, ranks, id, mail_.rank(), &config), "ncclCommInitRankConfig");
  unfinished_.push_back(handle);
  settle(handle, "ncclCommInitRankConfig", stop);
  const auto fresh = keep(name, handle);
  connect_all(*fresh, mail_.rank(), stop);
  return fresh;
}

std::shared_ptr<Communicator> Communicators::split(Communicator& parent, Label label, int color, int key,
                                                   const std::vector<int>& members, const std::string& queue,
                                                   const std::function<bool()>& stop) {
  const Name name{members, queue};
  std::shared_ptr<Communicator> known = color < 0 ? nullptr : find(name);
  if (!known && members.size() == 1) known = keep(name, nullptr);
  // Members of one group know alike whether they have it; the others learn whether to take part.
  const auto all = all_gather(mail_, label, parent.members, color >= 0 && !known ? "new" : "", stop);
  if (all.empty()) throw Unwind{};
  if (std::none_of(all.begin(), all.end(), [](const std::string& word) { return word == "new"; })) return known;
  ncclConfig_t config = configuration();
  ncclComm_t handle = nullptr;
  const int choice = color < 0 || known ? NCCL_SPLIT_NOCOLOR : color;
  check(ncclCommSplit(parent.handle, choice, key, &handle, &config), "ncclCommSplit");
  if (handle) unfinished_.push_back(handle);
  settle(parent.handle, "ncclCommSplit", stop);
  if (choice == NCCL_SPLIT_NOCOLOR) return known;
  settle(handle, "ncclCommSplit", stop);
  const auto fresh = keep(name, handle);
  const auto me = std::find(members.begin(), members.end(), mail_.rank());
  connect_all(*fresh, static_cast<int>(me - members.begin()), stop);
  return fresh;
}

/// A byte from everybody to everybody. NCCL connects two ranks at their first message, and holds the host until both
/// are there: done here, once, where all are, it never does so in the middle of a program.
void Communicators::connect_all(Communicator& of, int rank, const std::function<bool()>& stop) {
  const int ranks = static_cast<int>(of.members.size());
  const cudaStream_t stream = of.stream.get();
  const std::size_t half = of.members.size();
  struct Memory {  // given back in the stream's order, also when the run fails
    char* bytes = nullptr;
    cudaStream_t stream;
    ~Memory() { (void)cudaFreeAsync(bytes, stream); }
  } memory{.stream = stream};
  cuda::check(cudaMallocAsync(reinterpret_cast<void**>(&memory.bytes), 2 * half, stream), "cudaMallocAsync");
  cuda::check(cudaMemsetAsync(memory.bytes, 0, 2 * half, stream), "cudaMemsetAsync");
  check(ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    check(ncclSend(memory.bytes + peer, 1, ncclInt8, peer, of.handle, stream), "ncclSend");
    check(ncclRecv(memory.bytes + half + peer, 1, ncclInt8, peer, of.handle, stream), "ncclRecv");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
  settle(of.handle, "ncclGroupEnd", stop);
  const cuda::Event done = events_.record(stream);
  while (!done.done()) {
    if (stop()) throw Unwind{};
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

bool Communicators::abort(int ranks, double seconds) {
  std::vector<ncclComm_t> handles = std::exchange(unfinished_, {});
  std::erase_if(known_, [&](const auto& entry) {
    Communicator& each = *entry.second;
    if (*std::max_element(each.members.begin(), each.members.end()) >= ranks) return false;
    if (each.handle) handles.push_back(std::exchange(each.handle, nullptr));
    return true;
  });
  int gpu = 0;
  cuda::check(cudaGetDevice(&gpu), "cudaGetDevice");
  auto left = std::make_shared<std::atomic<std::size_t>>(handles.size());
  for (ncclComm_t handle : handles)
    std::thread([=] {
      (void)cudaSetDevice(gpu);
      (void)ncclCommAbort(handle);
      left->fetch_sub(1);
    }).detach();
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (left->load() > 0) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace lockstep::nccl

// A pretend NCCL: the functions of nccl.h that the runtime uses, between processes of one host, on whatever CUDA
// runtime the program is linked with. For tests without GPUs, so it is stricter than the real one: a send waits for its
// receive, two ends that disagree end the process, a communicator that is called before it has said ncclSuccess is an
// error, and work of a non-blocking communicator reaches its stream only once its state has been asked for.
#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "common/cuda/pretend/pretend.hpp"
#include "common/nccl/pretend/work.hpp"

namespace {

using namespace lockstep::pretend_nccl;

/// A communicator's insides; works that are still queued keep it alive.
struct State {
  std::string name;
  int rank = 0;
  int ranks = 1;
  bool blocking = true;
  int gpu = 0;
  StopFlag stop;
  std::vector<Wires> wires;
  std::atomic<ncclResult_t> result{ncclInProgress};
  std::mutex mutex;
  int queued = 0;  // works not finished
  int splits = 0;  // so far; the children's names
  cudaStream_t stream = nullptr;
  bool has_stream = false;
  // Non-blocking: operations of the last group, until somebody asks.
  std::vector<Operation> held;
  int questions = 0;
  std::thread set_up;
};

[[noreturn]] void die(const std::string& text) {
  std::fprintf(stderr, "pretend NCCL: %s\n", text.c_str());
  std::abort();
}

int version() {
  const char* text = std::getenv("LOCKSTEP_PRETEND_NCCL_VERSION");
  return text ? std::atoi(text) : NCCL_VERSION_CODE;
}

bool may_share_gpu() {
  const char* text = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return version() >= NCCL_VERSION(2, 30, 0) && text && std::strcmp(text, "1") == 0;
}

/// As NCCL: two ranks on one GPU are refused.
bool gpus_differ(State& s) {
  std::vector<char> all;
  if (!all_gather(s.rank, s.wires, s.stop, &s.gpu, sizeof s.gpu, all)) return true;  // said elsewhere
  for (int rank = 0; rank < s.ranks; ++rank) {
    int gpu = 0;
    std::memcpy(&gpu, all.data() + rank * sizeof gpu, sizeof gpu);
    if (rank != s.rank && gpu == s.gpu && !may_share_gpu()) return false;
  }
  return true;
}

void connect(State& s) {
  if (!connect_all(s.name, s.rank, s.ranks, s.stop, s.wires))
    s.result = ncclRemoteError;
  else
    s.result = gpus_differ(s) ? ncclSuccess : ncclInvalidUsage;
}

/// Runs `task` now, or on a thread of its own where the communicator does not block.
template <class F>
ncclResult_t set_up(const std::shared_ptr<State>& s, F task) {
  if (s->blocking) {
    task();
    return s->result;
  }
  s->set_up = std::thread(task);
  return ncclInProgress;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<State> state;
};

namespace {

/// Puts a group's operations on the communicator's stream.
ncclResult_t enqueue(const std::shared_ptr<State>& s, std::vector<Operation> operations) {
  {
    std::lock_guard lock(s->mutex);
    ++s->queued;
  }
  auto work = std::make_shared<Work>(std::move(operations), s->rank, s->wires);
  const cudaError_t queued = lockstep::pretend::enqueue_attempt(s->stream, [s, work] {
    if (s->result != ncclRemoteError && !s->stop.raised()) {
      const Ending ending = work->advance();
      if (ending == Ending::not_yet) return false;
      if (ending == Ending::mismatch) die(work->explanation() + ": NCCL would hang, or write where it should not");
      if (ending == Ending::peer_lost) s->result = ncclRemoteError;
    }
    std::lock_guard lock(s->mutex);
    --s->queued;
    return true;
  });
  return queued == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

struct Group {
  int depth = 0;
  std::vector<std::pair<ncclComm_t, std::vector<Operation>>> operations;  // by communicator
};
thread_local Group group;  // as NCCL's own

ncclResult_t hand_over(ncclComm_t comm, std::vector<Operation> operations) {
  State& s = *comm->state;
  if (s.blocking) return enqueue(comm->state, std::move(operations));
  thread_local std::minstd_rand dice(std::random_device{}());
  s.held = std::move(operations);
  s.questions = static_cast<int>(dice() % 3);
  s.result = ncclInProgress;
  return ncclInProgress;
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, Operation operation) {
  State& s = *comm->state;
  if (s.result == ncclInProgress) die("a communicator was used while its last call was in progress");
  if (s.result != ncclSuccess) return s.result;
  if (s.has_stream && s.stream != stream) die("one communicator was used on two streams: this double knows only one");
  s.stream = stream;
  s.has_stream = true;
  if (operation.kind != Operation::Kind::all_reduce && (operation.peer < 0 || operation.peer >= s.ranks))
    return ncclInvalidArgument;
  if (operation.peer == s.rank) die("a rank sends to itself: this double does not");
  if (group.depth == 0) return hand_over(comm, {operation});
  for (auto& [known, operations] : group.operations)
    if (known == comm) {
      operations.push_back(operation);
      return ncclSuccess;
    }
  group.operations.push_back({comm, {operation}});
  return ncclSuccess;
}

std::shared_ptr<State> new_state(std::string name, int rank, int ranks, bool blocking) {
  auto s = std::make_shared<State>();
  s->name = std::move(name);
  s->rank = rank;
  s->ranks = ranks;
  s->blocking = blocking;
  cudaGetDevice(&s->gpu);
  return s;
}

void finish(ncclComm_t comm) {
  State& s = *comm->state;
  if (s.set_up.joinable()) s.set_up.join();
  auto queued = [&] {
    std::lock_guard lock(s.mutex);
    return s.queued;
  };
  while (queued() > 0) {  // the pretend GPU goes on when somebody asks
    (void)cudaStreamQuery(s.stream);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  delete comm;
}

}  // namespace

ncclResult_t ncclGetVersion(int* result) {
  *result = version();
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device dice;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "pretend-nccl-%08x%08x%08x", dice(), dice(), dice());
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  auto s = new_state(id.internal, rank, ranks, !config || config->blocking != 0);
  *comm = new ncclComm{s};
  return set_up(s, [s] { connect(*s); });
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* child, ncclConfig_t*) {
  const std::shared_ptr<State> p = parent->state;
  if (p->result == ncclInProgress) die("a communicator was split while its last call was in progress");
  if (p->result != ncclSuccess) return p->result;
  if (p->set_up.joinable()) p->set_up.join();
  auto s = new_state("", 0, 1, p->blocking);
  *child = color == NCCL_SPLIT_NOCOLOR ? nullptr : new ncclComm{s};
  p->result = ncclInProgress;
  const int number = ++p->splits;
  auto work = [=] {
    struct Choice {
      int color, key;
    };
    const Choice mine{color, key};
    std::vector<char> all;
    if (!all_gather(p->rank, p->wires, p->stop, &mine, sizeof mine, all)) {
      p->result = s->result = ncclRemoteError;
      return;
    }
    const auto* choices = reinterpret_cast<const Choice*>(all.data());
    int before = 0, ranks = 0;
    for (int rank = 0; rank < p->ranks; ++rank) {
      if (choices[rank].color != color) continue;
      ++ranks;
      if (choices[rank].key < key || (choices[rank].key == key && rank < p->rank)) ++before;
    }
    s->name = p->name + "/" + std::to_string(number) + "." + std::to_string(color);
    s->rank = before;
    s->ranks = ranks;
    if (color != NCCL_SPLIT_NOCOLOR) connect(*s);
    p->result = ncclSuccess;
  };
  return set_up(p, work);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  State& s = *comm->state;
  if (!s.held.empty() && s.questions-- == 0) {
    const ncclResult_t queued = enqueue(comm->state, std::exchange(s.held, {}));
    s.result = queued;
  }
  *result = s.result;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  finish(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->state->stop.raise();
  finish(comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (auto& [comm, operations] : std::exchange(group.operations, {}))
    if (const ncclResult_t each = hand_over(comm, std::move(operations)); each != ncclSuccess) result = each;
  return result;
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, stream, {Operation::Kind::send, peer, from, nullptr, count, type});
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Operation::Kind::receive, peer, nullptr, to, count, type});
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || operation != ncclSum) die("all-reduce: this double sums fp32 only");
  return add(comm, stream, {Operation::Kind::all_reduce, -1, from, to, count, type});
}

// A fake NCCL: the functions of nccl.h that the runtime uses, between processes of one host, on the CUDA runtime that
// the program is linked with. It is for tests without GPUs, and stricter than the real one. A send waits for its
// receive. Two ends that disagree end the process. It is an error to call a communicator before it has returned
// ncclSuccess, or from two threads at once. Work of a non-blocking communicator reaches its stream only after its state
// has been queried. As in the real one, a split writes its handle when it is done, and communicators that share
// resources take turns on the GPU in the order of launches, and end when one of them is aborted.
//
// From its start to its end, work of a communicator occupies as many multiprocessors of the fake GPU as it may have
// CTAs: 32, unless maxCTAs or NCCL_MAX_CTAS limits them.
//
// LOCKSTEP_FAKE_NCCL_VERSION=22809, LOCKSTEP_FAKE_NCCL_SLOW=MILLISECONDS (duration of every set-up),
// LOCKSTEP_FAKE_NCCL_DEAF=1 (set-ups never end), LOCKSTEP_FAKE_NCCL_STUCK=1 (non-blocking groups of calls never end),
// LOCKSTEP_FAKE_NCCL_LOST=1 (messages never arrive); NCCL_COMM_BLOCKING, NCCL_MAX_CTAS and NCCL_MULTI_RANK_GPU_ENABLE
// as in NCCL.
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

#include "common/testing/fakes/cuda/fake.hpp"
#include "common/testing/fakes/nccl/work.hpp"

namespace {

using namespace lockstep::fake_nccl;

/// Shared by communicators that share resources; otherwise each has its own.
struct Family {
  StopFlag stop;
  std::atomic<std::uint64_t> launched{0}, passed{0};  // number of works: each waits for those launched before it
};

/// A communicator's internals; works that are still queued keep it alive.
struct State {
  explicit State(std::shared_ptr<Family> of = std::make_shared<Family>()) : family(std::move(of)) {}
  std::string name;
  int rank = 0;
  int ranks = 1;
  bool blocking = true;
  bool shares = false;  // shares resources with its split communicators
  int ctas = 0;         // multiprocessors that its kernels occupy
  int gpu = 0;
  std::shared_ptr<Family> family;
  StopFlag& stop = family->stop;
  std::atomic<bool> called{false};  // some thread is in a call
  std::vector<Wires> wires;
  std::atomic<ncclResult_t> result{ncclInProgress};
  std::mutex mutex;
  int queued = 0;  // works that have not finished
  int splits = 0;  // number so far, for the children's names
  cudaStream_t stream = nullptr;
  bool has_stream = false;
  // Non-blocking: operations of the last group, until the state is queried.
  std::vector<Operation> held;
  int questions = 0;
  std::thread set_up;
  std::shared_ptr<Family> child;  // its split communicators': an abort ends them, too
};

constexpr int kMostCtas = 32;  // default limit

[[noreturn]] void die(const std::string& text) {
  std::fprintf(stderr, "fake NCCL: %s\n", text.c_str());
  std::abort();
}

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

int version() { return setting("LOCKSTEP_FAKE_NCCL_VERSION", NCCL_VERSION_CODE); }

bool may_share_gpu() { return version() >= NCCL_VERSION(2, 30, 0) && setting("NCCL_MULTI_RANK_GPU_ENABLE", 0) == 1; }

/// Allows one thread at a time, except for ncclCommAbort, which ends another thread's call.
class Call {
 public:
  explicit Call(State& s) : s_(s) {
    if (s.called.exchange(true)) die("two threads called NCCL on one communicator at once");
  }
  Call(const Call&) = delete;
  ~Call() { s_.called = false; }

 private:
  State& s_;
};

/// Checks, like NCCL, that no two ranks use one GPU.
bool gpus_differ(State& s) {
  std::vector<char> all;
  if (!all_gather(s.rank, s.wires, s.stop, &s.gpu, sizeof s.gpu, all)) return true;  // reported elsewhere
  for (int rank = 0; rank < s.ranks; ++rank) {
    int gpu = 0;
    std::memcpy(&gpu, all.data() + rank * sizeof gpu, sizeof gpu);
    if (rank != s.rank && gpu == s.gpu && !may_share_gpu()) return false;
  }
  return true;
}

/// Waits for `milliseconds`, or until the communicator is stopped.
void pause(const State& s, int milliseconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!s.stop.raised() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void connect(State& s) {
  pause(s, setting("LOCKSTEP_FAKE_NCCL_SLOW", 0));
  if (setting("LOCKSTEP_FAKE_NCCL_DEAF", 0) == 1) pause(s, 3'600'000);
  if (s.stop.raised() || !connect_all(s.name, s.rank, s.ranks, s.stop, s.wires))
    s.result = ncclRemoteError;
  else
    s.result = gpus_differ(s) ? ncclSuccess : ncclInvalidUsage;
}

/// Runs `task` now, or on its own thread if the communicator is non-blocking.
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
  const std::uint64_t turn = s->family->launched++;
  const bool lost = setting("LOCKSTEP_FAKE_NCCL_LOST", 0) == 1;
  const cudaError_t queued = lockstep::fake::enqueue_attempt(
      s->stream,
      [s, work, turn, lost] {
        if (s->result != ncclRemoteError && !s->stop.raised()) {
          if (s->family->passed < turn || lost) return false;
          const Ending ending = work->advance();
          if (ending == Ending::not_yet) return false;
          if (ending == Ending::mismatch) die(work->explanation() + ": NCCL would hang, or write where it should not");
          if (ending == Ending::peer_lost) s->result = ncclRemoteError;
        }
        std::lock_guard lock(s->mutex);
        --s->queued;
        ++s->family->passed;
        return true;
      },
      s->ctas);
  return queued == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

struct Group {
  int depth = 0;
  std::vector<std::pair<ncclComm_t, std::vector<Operation>>> operations;  // by communicator
};
thread_local Group group;  // as in NCCL

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
  const Call call(s);
  if (s.result == ncclInProgress) die("a communicator was used while its last call was in progress");
  if (s.result != ncclSuccess) return s.result;
  if (s.has_stream && s.stream != stream) die("one communicator was used on two streams: this double knows only one");
  s.stream = stream;
  s.has_stream = true;
  const bool has_peer = operation.kind == Operation::Kind::send || operation.kind == Operation::Kind::receive ||
                        operation.kind == Operation::Kind::broadcast;
  if (has_peer && (operation.peer < 0 || operation.peer >= s.ranks)) return ncclInvalidArgument;
  if (group.depth == 0) return hand_over(comm, {operation});
  for (auto& [known, operations] : group.operations)
    if (known == comm) {
      operations.push_back(operation);
      return ncclSuccess;
    }
  group.operations.push_back({comm, {operation}});
  return ncclSuccess;
}

std::shared_ptr<State> new_state(const ncclConfig_t* config, const State* parent) {
  if (group.depth > 0) die("a communicator is made in a group of calls: this double does not");
  auto s = parent && parent->shares ? std::make_shared<State>(parent->family) : std::make_shared<State>();
  s->blocking = setting("NCCL_COMM_BLOCKING", !config || config->blocking != 0) != 0;
  s->shares = config && config->splitShare == 1;
  const bool bounded = config && config->maxCTAs != NCCL_CONFIG_UNDEF_INT;
  s->ctas = setting("NCCL_MAX_CTAS", bounded ? config->maxCTAs : kMostCtas);
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
  while (queued() > 0) {  // the fake GPU progresses when it is polled
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
  std::snprintf(id->internal, sizeof id->internal, "fake-nccl-%08x%08x%08x", dice(), dice(), dice());
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
  auto s = new_state(config, nullptr);
  s->name = id.internal;
  s->rank = rank;
  s->ranks = ranks;
  *comm = new ncclComm{s};
  return set_up(s, [s] { connect(*s); });
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  const std::shared_ptr<State> p = parent->state;
  const Call call(*p);
  if (p->result == ncclInProgress) die("a communicator was split while its last call was in progress");
  if (p->result != ncclSuccess) return p->result;
  if (p->queued > 0) die("a communicator was split while work of it was on its way");
  if (p->set_up.joinable()) p->set_up.join();
  auto s = new_state(config, p.get());
  *child = nullptr;
  p->child = s->family;
  p->result = ncclInProgress;
  const int number = ++p->splits;
  auto work = [=] {
    struct Choice {
      int color, key;
    };
    const Choice mine{color, key};
    std::vector<char> all;
    pause(*p, setting("LOCKSTEP_FAKE_NCCL_SLOW", 0));
    const bool heard = all_gather(p->rank, p->wires, p->stop, &mine, sizeof mine, all);
    if (color != NCCL_SPLIT_NOCOLOR) *child = new ncclComm{s};
    if (!heard) {
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
    p->result = color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : s->result.load();
  };
  return set_up(p, work);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  State& s = *comm->state;
  const Call call(s);
  if (s.result == ncclInProgress && s.held.empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (!s.held.empty() && setting("LOCKSTEP_FAKE_NCCL_STUCK", 0) == 0 && s.questions-- == 0) {
    const ncclResult_t queued = enqueue(comm->state, std::exchange(s.held, {}));
    s.result = queued;
  }
  *result = s.result;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  finish(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  State& s = *comm->state;
  s.stop.raise();
  if (s.child && s.result == ncclInProgress) s.child->stop.raise();
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
  for (auto& [comm, operations] : std::exchange(group.operations, {})) {
    const Call call(*comm->state);
    if (const ncclResult_t each = hand_over(comm, std::move(operations)); each != ncclSuccess) result = each;
  }
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

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || operation != ncclSum) die("reduce-scatter: this double sums fp32 only");
  return add(comm, stream, {Operation::Kind::reduce_scatter, -1, from, to, count, type});
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, stream, {Operation::Kind::all_gather, -1, from, to, count, type});
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, stream, {Operation::Kind::broadcast, root, from, to, count, type});
}

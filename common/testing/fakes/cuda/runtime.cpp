#include "common/testing/fakes/cuda/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "common/testing/fakes/cuda/emulator.hpp"
#include "common/testing/fakes/cuda/order.hpp"

namespace lockstep::fake {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Tells ThreadSanitizer that tasks and their caller, which share a stack and errno, do not synchronise through them.
__attribute__((noinline)) void forget_caller() {
  if (!order::watched()) return;
  constexpr std::uintptr_t kBytes = 64 * 1024;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) / 8 * 8;
  order::begins_anew(reinterpret_cast<void*>(here - kBytes), kBytes);
  order::begins_anew(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&errno) / 8 * 8), 8);
}

template <typename T>
void read(const char* name, T& value) {
  if (const char* text = std::getenv(name)) value = static_cast<T>(std::strtoull(text, nullptr, 10));
}

}  // namespace

Settings settings_of_environment() {
  Settings settings;
  if (const char* name = std::getenv("LOCKSTEP_FAKE_NAME")) settings.name = name;
  read("LOCKSTEP_FAKE_DEVICES", settings.devices);
  read("LOCKSTEP_FAKE_SEED", settings.seed);
  read("LOCKSTEP_FAKE_MEMORY", settings.memory_bytes);
  read("LOCKSTEP_FAKE_LIBRARY", settings.library_seed);
  read("LOCKSTEP_FAKE_DRIVER", settings.driver_version);
  read("LOCKSTEP_FAKE_MULTIPROCESSORS", settings.multiprocessors);
  read("LOCKSTEP_FAKE_CUDNN", settings.cudnn);
  read("LOCKSTEP_FAKE_THREADS", settings.check_threads);
  return settings;
}

Runtime& runtime() {
  static Runtime one;
  return one;
}

bool& inside_task() {
  static thread_local bool inside = false;
  return inside;
}

Runtime::Runtime() { begin(settings_of_environment()); }

Runtime::~Runtime() {
  const std::vector<std::string> found = finish();
  if (found.empty()) return;
  for (const std::string& problem : found) fmt::print(stderr, "fake GPU: {}\n", problem);
  std::fflush(nullptr);
  _exit(86);
}

void Runtime::begin(const Settings& with) {
  for (const auto& stream : streams_) order::drop_context(stream->context);
  streams_.clear();
  default_stream_.clear();
  for (CUevent_st* event : events) delete event;
  events.clear();
  most_shared_bytes.clear();
  loaded.clear();
  launches = 0;
  broken = cudaSuccess;
  settings = with;
  memory.begin(with.devices, with.memory_bytes);
  free_multiprocessors_.assign(with.devices, with.multiprocessors);
  channels_ = 8;
  read("CUDA_DEVICE_MAX_CONNECTIONS", channels_);
  streams_made_ = 0;
  for (int device = 0; device < with.devices; ++device) default_stream_.push_back(add_stream(device, true));
  // The seed also chooses the behaviour of the whole device: lazy, eager, or neither.
  random_.seed(with.seed);
  orders_.seed(with.seed);
  constexpr double kOften[] = {0, 0.2, 0.9};
  early_ = kOften[random_() % 3];
  stray_ = kOften[random_() % 3];
}

// Streams -------------------------------------------------------------------------------------------------------------

CUstream_st* Runtime::add_stream(int device, bool blocking) {
  streams_.push_back(std::make_unique<CUstream_st>());
  CUstream_st* const stream = streams_.back().get();
  stream->device = device;
  stream->blocking = blocking;
  stream->channel = streams_made_++ % channels_;
  stream->context = order::make_context();
  return stream;
}

CUstream_st* Runtime::find_stream(cudaStream_t handle, int device) {
  if (handle == nullptr || handle == cudaStreamLegacy) return default_stream_[device];
  for (const auto& stream : streams_) {
    if (stream.get() == handle && !stream->destroyed) return handle;
  }
  problem("a stream was used that does not exist");
  return nullptr;
}

void Runtime::destroy(CUstream_st* stream) {
  stream->destroyed = true;
  remove_finished();
}

std::size_t Runtime::streams_alive() const {
  return static_cast<std::size_t>(
             std::count_if(streams_.begin(), streams_.end(), [](const auto& stream) { return !stream->destroyed; })) -
         default_stream_.size();
}

void Runtime::remove_finished() {
  const auto finished = [](const std::unique_ptr<CUstream_st>& stream) {
    if (!stream->destroyed || stream->running || !stream->tasks.empty()) return false;
    order::drop_context(stream->context);
    return true;
  };
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(), finished), streams_.end());
}

// Tasks ---------------------------------------------------------------------------------------------------------------

void Runtime::push(CUstream_st* stream, Task task) {
  task.number = ++tasks_made_;
  stream->tasks.push_back(std::make_unique<Task>(std::move(task)));
  order::before(stream->tasks.back().get());
}

std::shared_ptr<Mark> Runtime::mark(CUstream_st* stream) {
  auto mark = std::make_shared<Mark>(Mark{stream});
  push(stream, {.reaches = mark});
  return mark;
}

void Runtime::add(Lock& lock, CUstream_st* stream, Task task) {
  // The default stream and blocking streams wait for each other.
  CUstream_st* const shared = default_stream_[stream->device];
  if (stream == shared) {
    for (const auto& other : streams_) {
      if (other.get() != shared && other->device == stream->device && other->blocking) {
        push(stream, {.awaits = mark(other.get())});
      }
    }
  } else if (stream->blocking) {
    push(stream, {.awaits = mark(shared)});
  }
  push(stream, std::move(task));
  while (chance(early_)) {
    CUstream_st* const next = pick(nullptr);
    if (!next) break;
    run_first(lock, next);
  }
  changed_.notify_all();
}

/// True if another stream's earlier work is still in the same hardware channel. A channel starts work in the order of
/// issue, so a stream can be stuck behind another one that waits.
bool Runtime::is_behind_another(const CUstream_st& stream) const {
  const std::uint64_t mine = stream.tasks.front()->number;
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& other) {
    if (other->channel != stream.channel || other->device != stream.device || other.get() == &stream) return false;
    const auto first =
        std::find_if(other->tasks.begin(), other->tasks.end(), [](const auto& t) { return !t->started; });
    return first != other->tasks.end() && (*first)->number < mine;
  });
}

/// Takes free multiprocessors until the task has all that it needs: blocks of a kernel become resident one by one, and
/// stay.
bool Runtime::take_multiprocessors(int device, Task& task) {
  const int more = std::min(task.multiprocessors - task.taken, free_multiprocessors_[device]);
  task.taken += more;
  free_multiprocessors_[device] -= more;
  return task.taken == task.multiprocessors || broken != cudaSuccess;
}

bool Runtime::can_run(CUstream_st& stream) {
  if (stream.running || stream.stuck || stream.tasks.empty()) return false;
  Task& task = *stream.tasks.front();
  if (task.awaits && !task.awaits->reached) return false;
  if (task.started) return true;
  return !is_behind_another(stream) && take_multiprocessors(stream.device, task);
}

/// Returns a stream that can run: the wanted one or one that it waits for, but occasionally any.
CUstream_st* Runtime::pick(CUstream_st* wanted) {
  if (wanted && !chance(stray_)) {
    for (std::size_t steps = 0; steps < streams_.size(); ++steps) {  // limits the chain of waits
      if (can_run(*wanted)) return wanted;
      if (wanted->tasks.empty() || !wanted->tasks.front()->awaits || wanted->tasks.front()->awaits->reached) break;
      wanted = wanted->tasks.front()->awaits->stream;
    }
  }
  std::vector<CUstream_st*> able;
  for (const auto& stream : streams_) {
    if (can_run(*stream)) able.push_back(stream.get());
  }
  return able.empty() ? nullptr : able[random_() % able.size()];
}

void Runtime::run_first(Lock& lock, CUstream_st* stream) {
  std::unique_ptr<Task> task = std::move(stream->tasks.front());
  stream->tasks.pop_front();
  stream->running = task->started = true;
  bool done = true;
  const bool skip = broken != cudaSuccess;
  lock.unlock();
  forget_caller();
  if (order::watched()) prepare_emulator();
  {
    const order::Inside timeline(stream->context);
    order::after(task.get());
    if (task->awaits) order::after(task->awaits.get());
    if (task->run && !skip) {
      inside_task() = true;
      done = task->run();
      inside_task() = false;
    }
    if (done) task->run = nullptr;  // releases what the task holds
    if (task->reaches) order::before(task->reaches.get());
  }
  forget_caller();
  lock.lock();
  stream->running = false;
  if (!done) {
    stream->stuck = true;  // until the state changes
    stream->tasks.push_front(std::move(task));
    return;
  }
  free_multiprocessors_[stream->device] += task->taken;
  for (const auto& other : streams_) other->stuck = false;
  if (task->reaches) {
    task->reaches->reached = true;
    task->reaches->seconds = seconds_now();
  }
  if (task->after) task->after();
  if (stream->destroyed) remove_finished();
  changed_.notify_all();
}

// Waiting -------------------------------------------------------------------------------------------------------------

void Runtime::wait(Lock& lock, const std::shared_ptr<Mark>& mark) {
  while (!mark->reached) {
    if (CUstream_st* const next = pick(mark->stream)) {
      run_first(lock, next);
    } else {  // until another host thread issues work
      changed_.wait_for(lock, std::chrono::milliseconds(1));
      for (const auto& stream : streams_) stream->stuck = false;
    }
  }
  order::after(mark.get());
}

void Runtime::wait_for_all(Lock& lock, int device) {
  std::vector<std::shared_ptr<Mark>> ends;
  for (const auto& stream : streams_) {
    if (stream->device == device) ends.push_back(mark(stream.get()));
  }
  for (const auto& end : ends) wait(lock, end);
}

void Runtime::poll(Lock& lock, CUstream_st* stream) {
  do {
    CUstream_st* const next = pick(stream);
    if (!next) {
      for (const auto& stream : streams_) stream->stuck = false;
      return;
    }
    run_first(lock, next);
  } while (chance(0.8));
}

// Problems ------------------------------------------------------------------------------------------------------------

int Runtime::spinning_kernels(int device) const {
  return static_cast<int>(std::count_if(streams_.begin(), streams_.end(), [&](const auto& stream) {
    return stream->device == device && !stream->tasks.empty() && stream->tasks.front()->started &&
           stream->tasks.front()->multiprocessors > 0;
  }));
}

void Runtime::comes_when_idle(int device, const std::string& what) {
  if (spinning_kernels(device) > 0)
    problem(what + " while work on the GPU waits for another rank: it may come only when that has ended");
}

void Runtime::problem(const std::string& what) { problems_.push_back(what); }

void Runtime::fault(cudaError_t error, const std::string& why) {
  if (broken == cudaSuccess) broken = error;
  problem(why);
}

std::vector<std::string> Runtime::take_problems() { return std::exchange(problems_, {}); }

Settings settings() {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  return r.settings;
}

void configure(const Settings& settings) {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  r.begin(settings);
}

std::vector<std::string> take_problems() {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  return r.take_problems();
}

std::vector<std::string> finish() {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  for (int device = 0; device < r.settings.devices; ++device) r.wait_for_all(lock, device);
  for (const std::string& problem : r.memory.check()) r.problem(problem);
  for (const Allocation* left : r.memory.all()) {
    if (!left->freed && r.broken == cudaSuccess) {
      r.problem(fmt::format("{} bytes of {} were never freed", left->bytes,
                            left->place == MemoryKind::device ? "GPU memory" : "pinned memory"));
    }
  }
  if (r.streams_alive() > 0) r.problem(fmt::format("{} streams were never destroyed", r.streams_alive()));
  if (!r.events.empty()) r.problem(fmt::format("{} events were never destroyed", r.events.size()));
  return r.take_problems();
}

}  // namespace lockstep::fake

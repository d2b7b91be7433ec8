#include "common/nccl/queue.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include "common/cuda/status.hpp"

namespace lockstep::nccl {

Queue::Queue(Job& job, int index, std::string name) : index(index), name(std::move(name)), job_(job) {}

Queue::~Queue() { stop(); }

void Queue::begin_thread() {
  thread_ = std::thread([this] { serve(); });
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

void Queue::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::uint64_t Queue::push(std::function<void(Rank)> f, Rank rank, Location where, cuda::Event issued) {
  auto fresh = std::make_unique<Closure>();
  fresh->f = std::move(f);
  fresh->rank = rank;
  fresh->where = where;
  fresh->issued = std::move(issued);
  Closure* closure = fresh.get();
  {
    std::lock_guard lock(mutex_);
    fresh->number = ++pushed_;
    closures_.push_back(std::move(fresh));
    if (thread_.joinable()) {
      if (pushed_ == ended_ + 1) job_.working.fetch_add(1);
      changed_.notify_all();
      return pushed_;
    }
  }
  call(*closure);
  std::lock_guard lock(mutex_);
  return ++ended_;
}

void Queue::serve() {
  (void)cudaSetDevice(job_.gpu);  // each thread has its own
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || ended_ < pushed_; });
    if (ended_ == pushed_) return;
    Closure& closure = *closures_[ended_ - released_];
    lock.unlock();
    call(closure);
    lock.lock();
    ++ended_;
    if (ended_ == pushed_) job_.working.fetch_sub(1);
    job_.note_activity();
    changed_.notify_all();
  }
}

void Queue::call(Closure& closure) {
  if (job_.failed) return;
  set_doing({.kind = Doing::Kind::own_code, .where = closure.where});
  closure_begins();
  auto complain = [&](Verdict verdict, const char* what) {
    job_.fail(verdict, fmt::format("rank {}, in the closure run at {} on queue \"{}\": {}", job_.rank,
                                   describe(closure.where), name, what));
  };
  try {
    stream.wait(closure.issued);
    job_.record([&](Recorder& recorder) { recorder.closure_begins(index); });
    closure.f(closure.rank);
    job_.record([&](Recorder& recorder) { recorder.closure_ends(index); });
    const std::uint64_t scratch = job_.record([&](Recorder& recorder) { return recorder.scratch(index); });
    if (scratch != 0)
      usage_error(
          fmt::format("the closure ends with {} bytes of scratch alive: scratch dies inside, main allocates the "
                      "rest",
                      scratch),
          closure.where);
    closure.ended = job_.events.record(stream.get());
  } catch (const Unwind&) {
  } catch (const Error& error) {
    complain(error.verdict(), error.what());
  } catch (const std::exception& error) {
    complain(Verdict::fail, error.what());
  } catch (...) {
    complain(Verdict::fail, "threw something that is not a std::exception");
  }
  closure_ends();
  set_doing({});
}

bool Queue::wait_for(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  while (ended_ < number) {
    if (job_.failed) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
  return !job_.failed;
}

cuda::Event Queue::end_of(std::uint64_t number) const {
  std::lock_guard lock(mutex_);
  return closures_[number - released_ - 1]->ended;
}

void Queue::release(std::uint64_t number) {
  while (true) {
    std::unique_ptr<Closure> closure;  // declared before the lock, so that its slices go home without it
    std::lock_guard lock(mutex_);
    if (released_ >= number || closures_.empty()) return;
    closure = std::move(closures_.front());
    closures_.pop_front();
    ++released_;
  }
}

Location Queue::running() const {
  std::lock_guard lock(mutex_);
  return ended_ < pushed_ ? closures_[ended_ - released_]->where : Location{};
}

void Queue::set_doing(Doing doing) {
  std::lock_guard lock(doing_mutex_);
  doing_ = doing;
}

Doing Queue::doing() const {
  std::lock_guard lock(doing_mutex_);
  return doing_;
}

}  // namespace lockstep::nccl

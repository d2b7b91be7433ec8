#include "common/mpi/queue.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include "common/mpi/status.hpp"

namespace lockstep::mpi {

Queue::Queue(Job& job, int index, std::string name) : index(index), name(std::move(name)), job_(job) {}

Queue::~Queue() { stop(); }

void Queue::begin_thread() {
  std::lock_guard lock(mutex_);
  thread_ = std::thread([this] { serve(); });
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  owner_ = thread_.get_id();
}

void Queue::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::uint64_t Queue::push(std::function<void(Rank)> f, Rank rank, Location where, double issued) {
  std::lock_guard lock(mutex_);
  auto closure = std::make_unique<Closure>();
  closure->number = ++pushed_;
  closure->f = std::move(f);
  closure->rank = rank;
  closure->where = where;
  closure->issued = issued;
  closures_.push_back(std::move(closure));
  if (pushed_ == ended_ + 1) job_.working.fetch_add(1);
  changed_.notify_all();
  return pushed_;
}

void Queue::serve() {
  ask_for_exact_sleeps();
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
  clock = std::max(clock, closure.issued);
  auto complain = [&](Verdict verdict, const char* what) {
    job_.fail(verdict, fmt::format("rank {}, in the closure run at {} on queue \"{}\": {}", job_.rank,
                                   describe(closure.where), name, what));
  };
  try {
    job_.record([&](Recorder& recorder) { recorder.closure_begins(index, job_.clock.now()); });
    closure.f(closure.rank);
    job_.record([&](Recorder& recorder) { recorder.closure_ends(index, job_.clock.now()); });
    const std::uint64_t scratch = job_.record([&](Recorder& recorder) { return recorder.scratch(index); });
    if (scratch != 0)
      usage_error(
          fmt::format("the closure ends with {} bytes of scratch alive: scratch dies inside, main allocates the "
                      "rest",
                      scratch),
          closure.where);
  } catch (const Unwind&) {
  } catch (const Error& error) {
    complain(error.verdict(), error.what());
  } catch (const std::exception& error) {
    complain(Verdict::fail, error.what());
  } catch (...) {
    complain(Verdict::fail, "threw something that is not a std::exception");
  }
  closure.end = clock;
  set_doing({});
}

bool Queue::wait_for(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  while (ended_ < number) {
    if (job_.failed) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
  return true;
}

double Queue::release(std::uint64_t number) {
  double end = 0;
  while (true) {
    std::unique_ptr<Closure> closure;
    {
      std::lock_guard lock(mutex_);
      if (released_ >= number || closures_.empty()) return end;
      closure = std::move(closures_.front());
      closures_.pop_front();
      ++released_;
    }
    end = closure->end;
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

}  // namespace lockstep::mpi

// A few worker threads that help with loops over chunks. OpenMP is not used: several queues may compute at once, and
// thread sanitizers understand this code.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::cpu {

class Threads {
 public:
  /// `count` includes the caller: starts count − 1 workers. USAGE error below 1, or if the system cannot start them.
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;

  int count() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls f(first, last) for [0, grain), [grain, 2·grain), … up to n, on any thread and in any order; returns when all
  /// calls are done. f must not throw. While another caller has the workers, the calling thread does all the work.
  template <class F>
  void chunks(std::size_t n, std::size_t grain, const F& f) {
    if (n <= grain) {
      if (n > 0) f(std::size_t{0}, n);
      return;
    }
    run({&f,
         [](const void* object, std::size_t first, std::size_t last) { (*static_cast<const F*>(object))(first, last); },
         n, grain});
  }

 private:
  struct Job {
    const void* object;
    void (*call)(const void*, std::size_t, std::size_t);
    std::size_t n;
    std::size_t grain;
  };

  void run(const Job& job);
  void work(const Job& job);  // takes chunks until none is left
  void serve();               // a worker's main loop
  void stop();                // ends all workers

  std::vector<std::thread> workers_;
  std::mutex callers_;  // held by the caller that has the workers

  std::mutex mutex_;  // guards the job and the counts below
  std::condition_variable wake_;
  const Job* job_ = nullptr;  // null if there is nothing to join
  int sleeping_ = 0;
  bool stop_ = false;
  std::atomic<std::uint64_t> posted_{0};  // number of jobs so far; workers watch it
  std::atomic<std::size_t> next_{0};      // first index not taken
  std::atomic<int> working_{0};           // workers inside the job
};

}  // namespace lockstep::cpu

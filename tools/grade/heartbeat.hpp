// Says what grading is doing, while it takes its time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tools/course/status_line.hpp"

namespace lockstep::tools {

/// "[3/10] ada: 21.2 and 1 more, about 4 min left", as a StatusLine: where it is no terminal, whenever nothing was said
/// for kSilence.
class Heartbeat {
 public:
  static constexpr std::chrono::seconds kSilence{8};
  using Clock = std::chrono::steady_clock;

  /// `now` tells the time.
  explicit Heartbeat(std::size_t submissions, std::function<Clock::time_point()> now = Clock::now);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;

  /// The next submission begins, and the one before it has ended.
  void begin(const std::string& name);
  /// Its grading begins, in `steps` that take about as long each. What was before it, such as building the suite, is
  /// nothing that the next submission takes.
  void expect(std::size_t steps);
  /// Names what takes time while no Part is running.
  void at(const std::string& what);
  /// One step of the submission has ended.
  void step();
  /// While it lives, the line is gone and does not come back: somebody else prints.
  std::unique_lock<std::mutex> quiet();
  /// The same while `f` runs, which says itself how far it is.
  template <class F>
  auto quiet_while(const F& f) {
    const auto lock = quiet();
    const struct Again {
      StatusLine& line;
      ~Again() { line.erase(); }  // the next is kSilence away
    } again{status_};
    return f();
  }

  /// "21.2a", or "compiling 21.2": one of those that run at a time, while it lives.
  class Part {
   public:
    Part(Heartbeat& heartbeat, std::string name);
    ~Part();
    Part(const Part&) = delete;

   private:
    Heartbeat& heartbeat_;
    std::list<std::string>::iterator place_;
  };

  /// The line as it is now.
  std::string line() const;

 private:
  std::string time_left() const;

  std::mutex mutex_;
  std::condition_variable ends_;
  std::function<Clock::time_point()> now_;
  std::size_t submissions_, number_ = 0, graded_ = 0, steps_ = 0, done_ = 0;
  std::string name_, what_;
  std::list<std::string> running_;          // the oldest first
  Clock::duration spent_{0};                // on the `graded_` that have ended
  std::optional<Clock::time_point> since_;  // the submission's grading has begun
  bool over_ = false;
  StatusLine status_{kSilence};
  std::thread thread_;
};

}  // namespace lockstep::tools

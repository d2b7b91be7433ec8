// What grading is at, said while it takes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

#include "tools/course/status_line.hpp"

namespace lockstep::tools {

/// "[3/10] ada: 21.2, about 4 min left", as a StatusLine: where it is no terminal, whenever nothing was said for
/// kSilence.
class Heartbeat {
 public:
  static constexpr std::chrono::seconds kSilence{8};

  explicit Heartbeat(std::size_t submissions);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;

  /// The next submission begins; it has `steps` that take about as long each.
  void begin(const std::string& name);
  void expect(std::size_t steps);
  /// "21.2a", or what else takes time.
  void at(const std::string& what);
  /// One step of the submission has ended.
  void step();
  /// The submission needed no time, since it was graded before.
  void skip();
  /// While it lives, the line is gone and does not come back: somebody else prints.
  std::unique_lock<std::mutex> quiet();

  /// The line as it is now.
  std::string line() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string time_left() const;

  std::mutex mutex_;
  std::condition_variable ends_;
  std::size_t submissions_, number_ = 0, skipped_ = 0, steps_ = 0, done_ = 0;
  std::string name_, what_;
  Clock::time_point begin_ = Clock::now();
  bool over_ = false;
  StatusLine status_{kSilence};
  std::thread thread_;
};

}  // namespace lockstep::tools

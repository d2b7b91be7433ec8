#include "tools/grade/heartbeat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::tools {

Heartbeat::Heartbeat(std::size_t submissions) : submissions_(submissions) {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, std::chrono::seconds(1), [this] { return over_; }))
      if (number_ > 0 && status_.is_due()) status_.show(line());
  });
}

Heartbeat::~Heartbeat() {
  {
    const auto lock = quiet();
    over_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Heartbeat::begin(const std::string& name) {
  const std::lock_guard lock(mutex_);
  ++number_, name_ = name, what_ = "reading it", steps_ = done_ = 0;
}
void Heartbeat::expect(std::size_t steps) {
  const std::lock_guard lock(mutex_);
  steps_ = steps;
}
void Heartbeat::at(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
}
void Heartbeat::step() {
  const std::lock_guard lock(mutex_);
  ++done_;
}
void Heartbeat::skip() {
  const std::lock_guard lock(mutex_);
  ++skipped_;
}

std::unique_lock<std::mutex> Heartbeat::quiet() {
  std::unique_lock lock(mutex_);
  status_.erase();
  return lock;
}

std::string Heartbeat::line() const {
  return fmt::format("[{}/{}] {}: {}{}", number_, submissions_, name_, what_, time_left());
}

/// By what those that were graded took.
std::string Heartbeat::time_left() const {
  const double of_this = steps_ == 0 ? 0 : static_cast<double>(done_) / static_cast<double>(steps_);
  const double before = static_cast<double>(number_ - std::min(number_, skipped_ + 1)), done = before + of_this;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  if (done <= 0 || seconds < 2) return "";
  const double left = seconds / done * (static_cast<double>(submissions_ - number_) + 1 - of_this);
  return left < 60 ? ", less than a minute left" : fmt::format(", about {:.0f} min left", std::ceil(left / 60));
}

}  // namespace lockstep::tools

#include "tools/grade/heartbeat.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace lockstep::tools {

Heartbeat::Heartbeat(std::size_t submissions, std::function<Clock::time_point()> now)
    : now_(std::move(now)), submissions_(submissions) {
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
  if (since_) spent_ += now_() - *since_, ++graded_;
  since_.reset();
  ++number_, name_ = name, what_ = "reading it", steps_ = done_ = 0;
}
void Heartbeat::expect(std::size_t steps) {
  const std::lock_guard lock(mutex_);
  steps_ = steps, since_ = now_();
}
void Heartbeat::at(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
}
void Heartbeat::step() {
  const std::lock_guard lock(mutex_);
  ++done_;
}

std::unique_lock<std::mutex> Heartbeat::quiet() {
  std::unique_lock lock(mutex_);
  status_.erase();
  return lock;
}

Heartbeat::Part::Part(Heartbeat& heartbeat, std::string name) : heartbeat_(heartbeat) {
  const std::lock_guard lock(heartbeat_.mutex_);
  place_ = heartbeat_.running_.insert(heartbeat_.running_.end(), std::move(name));
}
Heartbeat::Part::~Part() {
  const std::lock_guard lock(heartbeat_.mutex_);
  heartbeat_.running_.erase(place_);
}

std::string Heartbeat::line() const {
  std::string what = running_.empty() ? what_ : running_.front();
  if (running_.size() > 1) what += fmt::format(" and {} more", running_.size() - 1);
  return fmt::format("[{}/{}] {}: {}{}", number_, submissions_, name_, what, time_left());
}

/// By what those that were graded took, so nothing is known before the second.
std::string Heartbeat::time_left() const {
  if (graded_ == 0) return "";
  const double of_this = steps_ == 0 ? 0 : static_cast<double>(done_) / static_cast<double>(steps_);
  const double each = std::chrono::duration<double>(spent_).count() / static_cast<double>(graded_);
  const double left = each * (static_cast<double>(submissions_ - number_) + 1 - of_this);
  return left < 60 ? ", less than a minute left" : fmt::format(", about {:.0f} min left", std::ceil(left / 60));
}

}  // namespace lockstep::tools

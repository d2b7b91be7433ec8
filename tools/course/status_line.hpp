// A progress line on standard error.
#pragma once

#include <chrono>
#include <string>

namespace lockstep::tools {

/// True if output is seen at once. CTest shows what a test printed only when the test has ended.
bool seen_at_once();

/// On a terminal one line, overwritten by the next and removed at the end; elsewhere, and with NO_COLOR, lines that are
/// so many seconds apart; nothing where it is not seen at once.
class StatusLine {
 public:
  explicit StatusLine(std::chrono::seconds between);
  ~StatusLine() { erase(); }
  StatusLine(const StatusLine&) = delete;

  /// True if it is time for another line.
  bool is_due() const;
  void show(const std::string& text);
  /// Removes the line; somebody else prints.
  void erase();

 private:
  using Clock = std::chrono::steady_clock;
  const bool overwrites_;
  const std::chrono::seconds between_;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

}  // namespace lockstep::tools

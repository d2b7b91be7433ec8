#include "tools/course/status_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "common/support/text/columns.hpp"

namespace lockstep::tools {

StatusLine::StatusLine(std::chrono::seconds between)
    : overwrites_(isatty(STDERR_FILENO) && !std::getenv("NO_COLOR")), between_(between) {}

bool seen_at_once() { return !std::getenv("LOCKSTEP_CTEST"); }

bool StatusLine::is_due() const { return seen_at_once() && (overwrites_ || Clock::now() - last_ >= between_); }

void StatusLine::show(const std::string& text) {
  if (overwrites_)
    fmt::print(stderr, "\r\033[K{}", line_of({{text}}, terminal_columns(STDERR_FILENO) - 1));
  else
    fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
  shown_ = true, last_ = Clock::now();
}

void StatusLine::erase() {
  if (overwrites_ && shown_) fmt::print(stderr, "\r\033[K"), std::fflush(stderr);
  shown_ = false, last_ = Clock::now();
}

}  // namespace lockstep::tools

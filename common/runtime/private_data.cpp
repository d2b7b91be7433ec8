#include "common/runtime/private_data.hpp"

#include <algorithm>

namespace {
using Initialiser = void (*)(int, char**, char**);
}

// Symbols that the linker defines at the beginning and end of a section; null if there is none.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
[[gnu::weak]] extern char __start_lockstep_private[], __stop_lockstep_private[];
[[gnu::weak]] extern Initialiser __start_lockstep_private_init[], __stop_lockstep_private_init[];
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// Private initialisers call this instead of __cxa_atexit. It registers nothing: when destructors would run, their bytes
// belong to another rank.
int lockstep_private_at_exit(void (*)(void*), void*, void*) { return 0; }
}

namespace lockstep {
namespace {

std::vector<char>& untouched() {
  static std::vector<char> bytes;
  return bytes;
}

void initialise() {
  for (Initialiser* f = __start_lockstep_private_init; f != __stop_lockstep_private_init; ++f)
    (*f)(0, nullptr, nullptr);
}

}  // namespace

std::span<char> private_bytes() { return {__start_lockstep_private, __stop_lockstep_private}; }

void start_private_data() {
  untouched().assign(private_bytes().begin(), private_bytes().end());
  initialise();
}

void PrivateData::exchange(int rank) {
  const auto slot = [this](int of) -> std::vector<char>& {
    const auto index = static_cast<std::size_t>(of + 1);
    if (kept_.size() <= index) kept_.resize(index + 1);
    return kept_[index];
  };
  const std::span<char> bytes = private_bytes();
  slot(current_).assign(bytes.begin(), bytes.end());
  current_ = rank;
  if (const std::vector<char>& own = slot(rank); !own.empty()) {
    std::copy(own.begin(), own.end(), bytes.begin());
    return;
  }
  std::copy(untouched().begin(), untouched().end(), bytes.begin());
  initialise();
}

}  // namespace lockstep

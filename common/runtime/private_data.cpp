#include "common/runtime/private_data.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iostream>

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

/// Format settings of a stream.
struct StreamFormat {
  std::ios::fmtflags flags{};
  std::streamsize precision = 0, width = 0;
  char fill = ' ';
};

namespace {

std::vector<char>& untouched() {
  static std::vector<char> bytes;
  return bytes;
}

bool has_started = false;

void initialise() {
  for (Initialiser* f = __start_lockstep_private_init; f != __stop_lockstep_private_init; ++f)
    (*f)(0, nullptr, nullptr);
}

std::array<std::ios*, 3> streams() { return {&std::cout, &std::cerr, &std::clog}; }
StreamFormat format_of(const std::ios& stream) {
  return {stream.flags(), stream.precision(), stream.width(), stream.fill()};
}
void give_format(std::ios& stream, const StreamFormat& format) {
  stream.exceptions(std::ios::goodbit), stream.clear();  // what it failed at is nobody's
  stream.flags(format.flags), stream.precision(format.precision), stream.width(format.width), stream.fill(format.fill);
}

}  // namespace

std::span<char> private_bytes() { return {__start_lockstep_private, __stop_lockstep_private}; }

void start_private_data() {
  has_started = true;
  untouched().assign(private_bytes().begin(), private_bytes().end());
  initialise();
}

/// Data that belongs to one rank.
struct PrivateData::Kept {
  std::vector<char> bytes;
  int error = 0;
  std::array<StreamFormat, 3> formats{};  // of streams()
};

PrivateData::PrivateData() : any_(has_started || !private_bytes().empty()) {}
PrivateData::~PrivateData() { leave(); }

void PrivateData::exchange(int rank) {
  const auto slot = [this](int of) -> std::unique_ptr<Kept>& {
    const auto index = static_cast<std::size_t>(of + 1);
    if (kept_.size() <= index) kept_.resize(index + 1);
    return kept_[index];
  };
  const std::span<char> bytes = private_bytes();
  std::unique_ptr<Kept>& before = slot(current_);
  if (!before) before = std::make_unique<Kept>();
  before->bytes.assign(bytes.begin(), bytes.end());
  before->error = errno;
  for (std::size_t i = 0; i < before->formats.size(); ++i) before->formats[i] = format_of(*streams()[i]);
  current_ = rank;
  std::unique_ptr<Kept>& own = slot(rank);
  const bool fresh = !own;
  if (fresh) own = std::make_unique<Kept>(), own->formats = slot(kCaller)->formats;
  errno = own->error;
  for (std::size_t i = 0; i < own->formats.size(); ++i) give_format(*streams()[i], own->formats[i]);
  const std::vector<char>& now = fresh ? untouched() : own->bytes;
  std::copy(now.begin(), now.end(), bytes.begin());
  if (fresh) initialise();
}

}  // namespace lockstep

#include "common/runtime/fibers/stacks.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace lockstep {

namespace {

constexpr std::size_t kLine = 64;
constexpr int kColors = 24;         // within the first page, with room for a usual call depth
constexpr int kMostAtOnce = 64;     // per mapping
constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL of Linux 6.13, missing in older headers

}  // namespace

Stacks::Stacks(std::size_t bytes, int expected)
    : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      each_((bytes + page_ - 1) / page_ * page_ + 2 * page_),
      expected_(expected) {}

Stacks::~Stacks() {
  for (const Mapping& mapping : mappings_) munmap(mapping.begin, mapping.bytes);
}

void Stacks::map_more() {
  left_ = std::clamp(expected_, 1, kMostAtOnce);
  expected_ -= left_;
  const std::size_t bytes = static_cast<std::size_t>(left_) * each_;
  void* begin =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  mappings_.push_back({static_cast<char*>(begin), bytes});
  madvise(begin, bytes, MADV_NOHUGEPAGE);  // a huge page would hold memory for the few pages used at each top
}

/// Installs a guard: an entry of the page table or, on older kernels, a separate mapping, of which a process can have
/// 65,530.
void Stacks::guard(char* page) {
  if (light_guards_ && madvise(page, page_, kGuardInstall) == 0) return;
  light_guards_ = false;
  if (mprotect(page, page_, PROT_NONE) != 0) throw std::bad_alloc();
}

Stack Stacks::take(int color) {
  if (left_ == 0) map_more();
  char* bottom = mappings_.back().begin + static_cast<std::size_t>(--left_) * each_;
  guard(bottom);
  const std::size_t shift = static_cast<std::size_t>(color % kColors) * kLine;
  return {bottom + each_ - shift, each_ - page_ - shift};
}

}  // namespace lockstep

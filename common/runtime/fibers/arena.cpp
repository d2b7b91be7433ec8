#include "common/runtime/fibers/arena.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace lockstep {

namespace {
constexpr std::size_t kAlignment = 64, kSmallBlock = 8192, kHugePage = std::size_t{1} << 21;
}

Arena::Arena(std::size_t expected_bytes) : huge_(expected_bytes >= 2 * kHugePage) {}

void* Arena::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (!std::align(alignment, bytes, next_, left_)) {
    add_block(bytes + alignment);
    std::align(alignment, bytes, next_, left_);
  }
  left_ -= bytes;
  return std::exchange(next_, static_cast<char*>(next_) + bytes);
}

/// Adds a block of at least `at_least` bytes: one huge page or, without huge pages, an eighth of what is taken so far,
/// so that little is left over.
void Arena::add_block(std::size_t at_least) {
  const std::size_t unit = huge_ ? kHugePage : kAlignment;
  left_ = std::max({at_least, huge_ ? kHugePage : kSmallBlock, huge_ ? 0 : taken_ / 8});
  left_ = (left_ + unit - 1) / unit * unit;
  const Free free{static_cast<std::align_val_t>(unit)};
  blocks_.emplace_back(::operator new(left_, free.alignment), free);
  next_ = blocks_.back().get();
  taken_ += left_;
  if (huge_) madvise(next_, left_, MADV_HUGEPAGE);  // if refused, pages are small
}

}  // namespace lockstep

// The fields of a new block that are the same on every backend, and the mark that tells such a block from one that
// somebody put together: memory that no ledger counts.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/runtime/backend.hpp"

namespace lockstep {

/// The mark of a block that new_block has made: another number for each, and in each process.
std::uint64_t mark_of(const Block& block);

/// Throws a USAGE error if the slice is of memory that was not allocated by a rank. Empty handles are fine.
inline void need_allocated(const Slice& slice, std::string_view what, Location where) {
  if (slice.block() && slice.block()->mark != mark_of(*slice.block()))
    usage_error(std::string(what) + " of memory that no rank has allocated, which no ledger counts", where);
}

/// Makes a block that has no memory yet. `B` is Block or derived from it; `id` counts the owner's blocks.
template <class B = Block>
std::unique_ptr<B> new_block(CommunicatorKey at, std::size_t count, DType dtype, Category category, BlockOwner& owner,
                             std::uint64_t id, Location where) {
  auto block = std::make_unique<B>();
  block->category = category;
  block->dtype = dtype;
  block->queue = at.queue;
  block->bytes = count * bytes_of(dtype);
  block->owner = &owner;
  block->id = id;
  block->where = where;
  block->mark = mark_of(*block);
  return block;
}

}  // namespace lockstep

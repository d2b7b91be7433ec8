// The fields of a new block that are the same on every backend.
#pragma once

#include <memory>

#include "common/runtime/backend.hpp"

namespace lockstep {

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
  return block;
}

}  // namespace lockstep

// Memory that lab code can name, cut, send and compute with, but cannot look into.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/dtype.hpp"
#include "common/error.hpp"

namespace lockstep {

/// Purpose of a block of memory; the memory ledger counts live and peak bytes for each.
enum class Category : std::uint8_t { parameter, gradient, optimizer, activation, buffer };
inline constexpr int kCategories = 5;
std::string_view to_string(Category category);

struct Block;

/// Takes a block back when its last Slice is gone. One per rank; supplied by the backend.
class BlockOwner {
 public:
  virtual void release(Block& block) = 0;

 protected:
  ~BlockOwner() = default;
};

/// One allocation. Only the runtime sees it; `data` is host or device memory, or null in a phantom run.
struct Block {
  std::atomic<std::uint32_t> holders{0};
  bool threads = false;  // holders live on several OS threads (MPI queues); otherwise counts need no lock
  Category category = Category::buffer;
  DType dtype = DType::f32;
  int queue = 0;  // the queue that allocated it
  void* data = nullptr;
  std::size_t bytes = 0;
  BlockOwner* owner = nullptr;
  void* history = nullptr;  // used by the race detector, while it is on
  std::uint64_t id = 0;     // number of this allocation on its rank
  std::uint64_t mark = 0;   // what new_block.hpp marks the runtime's own allocations with
  Location where{};
};

/// Counted handle to a range of elements of one allocation. Copies share the memory. There is no element access, so lab
/// code runs unchanged on GPU memory, and without any memory in a phantom run.
class Slice {
 public:
  Slice() = default;
  Slice(const Slice& other) : block_(other.block_), offset_(other.offset_), size_(other.size_) { retain(); }
  Slice(Slice&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        offset_(std::exchange(other.offset_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  Slice& operator=(Slice other) noexcept {
    std::swap(block_, other.block_);
    std::swap(offset_, other.offset_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Slice() { drop(); }

  std::size_t size() const { return size_; }  ///< elements
  bool empty() const { return size_ == 0; }
  DType dtype() const { return block_ ? block_->dtype : DType::f32; }
  std::size_t bytes() const { return size_ * bytes_of(dtype()); }
  Category category() const { return block_ ? block_->category : Category::buffer; }

  /// Elements [offset, offset + count) of this slice; USAGE error if they reach outside it.
  Slice cut(std::size_t offset, std::size_t count, Location where = Location::current()) const {
    if (offset > size_ || count > size_ - offset) reaches_outside(offset, count, where);
    Slice part = *this;
    part.offset_ += offset;
    part.size_ = count;
    return part;
  }

  /// True if both are parts of one allocation; and where in it this slice begins.
  bool shares_memory_with(const Slice& other) const { return block_ == other.block_; }
  std::size_t offset_bytes() const { return offset_ * bytes_of(dtype()); }

#include "common/runtime_access.hpp"  // private while an answer is compiled
  /// For the runtime: the allocation, and this slice's first byte within it.
  Block* block() const { return block_; }
  void* data() const { return block_ && block_->data ? static_cast<char*>(block_->data) + offset_bytes() : nullptr; }
  /// For the runtime: a slice of the whole block.
  explicit Slice(Block& block) : block_(&block), size_(block.bytes / bytes_of(block.dtype)) { retain(); }

 private:
  [[noreturn]] void reaches_outside(std::size_t offset, std::size_t count, Location where) const;
  void retain() const {
    if (!block_) return;
    if (block_->threads)
      block_->holders.fetch_add(1, std::memory_order_relaxed);
    else
      block_->holders.store(block_->holders.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void drop() {
    if (!block_) return;
    std::uint32_t before = 0;
    if (block_->threads) {
      before = block_->holders.fetch_sub(1, std::memory_order_acq_rel);
    } else {
      before = block_->holders.load(std::memory_order_relaxed);
      block_->holders.store(before - 1, std::memory_order_relaxed);
    }
    if (before == 1) block_->owner->release(*block_);
  }

  Block* block_ = nullptr;
  std::size_t offset_ = 0;  // elements
  std::size_t size_ = 0;    // elements
};

}  // namespace lockstep

// Memory for objects that live as long as a run. Thousands of ranks touch more pages than a core's TLB holds, so the
// arena then uses huge pages, if the system has them.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <utility>
#include <vector>

namespace lockstep {

/// Destroys an object of an arena; its memory is freed with the arena.
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    std::destroy_at(object);
  }
};
template <class T>
using InArena = std::unique_ptr<T, Destroy>;

class Arena final : public std::pmr::memory_resource {
 public:
  explicit Arena(std::size_t expected_bytes);

  template <class T, class... Arguments>
  InArena<T> make(Arguments&&... arguments) {
    return InArena<T>(new (allocate(sizeof(T), alignof(T))) T(std::forward<Arguments>(arguments)...));
  }

 private:
  struct Free {
    std::align_val_t alignment;
    void operator()(void* memory) const { ::operator delete(memory, alignment); }
  };
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  void add_block(std::size_t at_least);

  bool huge_;
  std::size_t taken_ = 0;  // total over all blocks
  void* next_ = nullptr;   // free space in the last block
  std::size_t left_ = 0;
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

}  // namespace lockstep

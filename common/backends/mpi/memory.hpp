// Memory of one rank. Freed blocks are kept and reused, since every training step asks for the same sizes, and fresh
// pages cost more than the arithmetic on them.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

namespace lockstep::mpi {

class Heap {
 public:
  Heap() = default;
  Heap(const Heap&) = delete;
  ~Heap();
  /// At least `bytes`, aligned to 64; throws std::bad_alloc.
  void* take(std::size_t bytes);
  void give(void* data, std::size_t bytes);

 private:
  std::unordered_map<std::size_t, std::vector<void*>> spare_;  // by rounded size
};

}  // namespace lockstep::mpi

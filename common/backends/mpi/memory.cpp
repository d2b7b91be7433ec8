#include "common/backends/mpi/memory.hpp"

#include <cstdlib>
#include <new>

namespace lockstep::mpi {

namespace {
std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0); }
}  // namespace

Heap::~Heap() {
  for (auto& [bytes, blocks] : spare_)
    for (void* block : blocks) std::free(block);
}

void* Heap::take(std::size_t bytes) {
  auto& blocks = spare_[rounded(bytes)];
  if (!blocks.empty()) {
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }
  void* block = std::aligned_alloc(64, rounded(bytes));
  if (!block) throw std::bad_alloc();
  return block;
}

void Heap::give(void* data, std::size_t bytes) { spare_[rounded(bytes)].push_back(data); }

}  // namespace lockstep::mpi

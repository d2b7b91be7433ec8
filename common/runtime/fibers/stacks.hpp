// Stacks for fibers: many side by side in one mapping, each above a page that nobody may touch, so that one that
// overflows ends the program rather than changing its neighbour.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep {

struct Stack {
  void* top = nullptr;
  std::size_t bytes = 0;
};

class Stacks {
 public:
  /// Of so many bytes each, of which memory is taken only as far as a stack has ever reached; about `expected` of them.
  Stacks(std::size_t bytes, int expected);
  ~Stacks();  ///< nobody runs on them any more
  Stacks(const Stacks&) = delete;

  /// A new one, whose top is moved down by a few cache lines, as many as `color` says.
  Stack take(int color);

 private:
  struct Mapping {
    char* begin;
    std::size_t bytes;
  };
  void map_more();
  void guard(char* page);

  std::size_t page_;
  std::size_t each_;  // bytes from stack to stack, guard included
  int expected_;      // that are not mapped yet
  int left_ = 0;      // in the last mapping
  bool light_guards_ = true;
  std::vector<Mapping> mappings_;
};

}  // namespace lockstep

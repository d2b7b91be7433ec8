// Stacks for fibers: many in one mapping, each above a guard page, so that a stack overflow ends the program instead of
// corrupting the neighbouring stack.
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
  /// Stacks of `bytes` each, about `expected` of them; memory is used only as far as a stack has ever reached.
  Stacks(std::size_t bytes, int expected);
  ~Stacks();  ///< no fiber may use them any more
  Stacks(const Stacks&) = delete;

  /// Returns a new stack, whose top is `color` steps of a few cache lines lower.
  Stack take(int color);

 private:
  struct Mapping {
    char* begin;
    std::size_t bytes;
  };
  void map_more();
  void guard(char* page);

  std::size_t page_;
  std::size_t each_;  // distance between stacks, guard included
  int expected_;      // number not mapped yet
  int left_ = 0;      // number left in the last mapping
  bool light_guards_ = true;
  std::vector<Mapping> mappings_;
};

}  // namespace lockstep

// Exercise 23.9: overlap inside tensor parallelism. Read labs/week23_tensor_parallel/overlapped_linear.hpp first.
#include "labs/week23_tensor_parallel/overlapped_linear.hpp"

#include <algorithm>
#include <array>

#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {

void column_forward_ring(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                         const char* place) {
  Rank me = tp.group;
  const int p = me.size(), r = me.rank(), next = (r + 1) % p, previous = (r + p - 1) % p;
  Scope scope = me.region(place, x.bytes() * static_cast<std::size_t>(p));
  const auto block = [&] { return me.allocate(x.size(), x.dtype(), Category::buffer); };
  const std::array<Slice, 2> blocks = {block(), block()};
  const std::size_t own = rows / static_cast<std::size_t>(p);  // rows of a block
  todo("23.9a",
       "p products, from your own rows of x on: a block of rows travels to the next rank and another arrives while "
       "you multiply. Whose rows do you hold after k steps, and where in y do they belong?");
}

void row_forward_ring(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                      const char* place) {
  Rank me = tp.group;
  const int p = me.size(), r = me.rank(), next = (r + 1) % p, previous = (r + p - 1) % p;
  Scope scope = me.region(place, y.bytes() * static_cast<std::size_t>(p));
  const auto block = [&] { return me.allocate(y.size(), y.dtype(), Category::buffer); };
  const std::array<Slice, 2> sums = {block(), block()};
  const Slice received = block();
  const std::size_t own = rows / static_cast<std::size_t>(p);  // rows of a block
  todo("23.9b",
       "p products, the last one of your own rows, into y. A partial sum arrives while you multiply the rows that it "
       "is of; add your product to it and pass it on. Which rows come first, and which rank adds the bias?");
}

double in_turn_seconds(const StepTimes& times, int ranks) {
  todo("23.9c", "one product, p − 1 messages with what is added, and the copy");
}

double ring_seconds(const StepTimes& times, int ranks) {
  todo("23.9c", "p products and p − 1 messages. Which of them run side by side, and what waits for both?");
}

std::size_t rows_to_pay(const Machine& machine, int ranks, RankProduct product) {
  todo("23.9c", "the first N/p of 1, 2, 4, … at which the ring takes less time, or 0");
}

}  // namespace lockstep::week23

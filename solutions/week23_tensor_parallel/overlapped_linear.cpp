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
  // lab 23.9a begin: p products, from your own rows of x on: a block of rows travels to the next rank and another
  // arrives while you multiply. Whose rows do you hold after k steps, and where in y do they belong?
  Slice held = x;
  for (int step = 0; step < p; ++step) {
    const Slice& arriving = blocks[static_cast<std::size_t>(step % 2)];
    Ticket passed;
    if (step + 1 < p) passed = me.start({send(next, held), receive(previous, arriving)});
    linear(me, chunk(y, (r - step + p) % p, p), held, values.weight, values.bias, own);
    me.wait(passed);
    held = arriving;
  }
  // lab end
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
  // lab 23.9b begin: p products, the last one of your own rows, into y. A partial sum arrives while you multiply the
  // rows that it is of; add your product to it and pass it on. Which rows come first, and which rank adds the bias?
  Ticket passed;
  for (int step = 0; step < p; ++step) {
    const int owner = (r - 1 - step + 2 * p) % p;
    const Slice& sum = step + 1 < p ? sums[static_cast<std::size_t>(step % 2)] : y;
    linear(me, sum, chunk(x, owner, p), values.weight, owner == r ? values.bias : Slice(), own);
    me.wait(passed);
    if (step > 0) add(me, sum, received);
    if (step + 1 < p) passed = me.start({send(next, sum), receive(previous, received)});
  }
  // lab end
}

double in_turn_seconds(const StepTimes& times, int ranks) {
  // lab 23.9c begin: one product, p − 1 messages with what is added, and the copy
  return times.whole + times.copy + (ranks - 1) * (times.message + times.add);
  // lab end
}

double ring_seconds(const StepTimes& times, int ranks) {
  // lab 23.9c begin: p products and p − 1 messages. Which of them run side by side, and what waits for both?
  return times.chunk + (ranks - 1) * (std::max(times.chunk, times.message) + times.add);
  // lab end
}

std::size_t rows_to_pay(const Machine& machine, int ranks, RankProduct product) {
  // lab 23.9c begin: the first N/p of 1, 2, 4, … at which the ring takes less time, or 0
  for (std::size_t own = 1; own <= kMostRows; own *= 2) {
    product.rows = own * static_cast<std::size_t>(ranks);
    const StepTimes times = times_of(machine, ranks, product);
    if (ring_seconds(times, ranks) < in_turn_seconds(times, ranks)) return own;
  }
  return 0;
  // lab end
}

}  // namespace lockstep::week23

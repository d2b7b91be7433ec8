#include "bench/programs/collective_algorithms.hpp"

#include <bit>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"

namespace lockstep::bench {

void tree_broadcast(Rank me, Slice data) {
  Scope scope = me.region("tree_broadcast", data.bytes());
  const int p = me.size(), r = me.rank();
  for (int distance = static_cast<int>(std::bit_ceil(static_cast<unsigned>(p))) / 2; distance > 0; distance /= 2) {
    if (r % distance != 0) continue;
    const bool has_it = r % (2 * distance) == 0;
    if (!has_it) me.exchange({receive(r - distance, data)});
    if (has_it && r + distance < p) me.exchange({send(r + distance, data)});
  }
}

void chain_broadcast(Rank me, Slice data, int segments) {
  Scope scope = me.region("chain_broadcast", data.bytes());
  const int p = me.size(), r = me.rank();
  for (int step = 0; step <= segments; ++step) {
    std::vector<Transfer> batch;
    if (r > 0 && step < segments) batch.push_back(receive(r - 1, chunk(data, step, segments)));
    if (r + 1 < p && step > 0) batch.push_back(send(r + 1, chunk(data, step - 1, segments)));
    me.exchange(batch);
  }
}

void direct_all_to_all(Rank me, Slice to, Slice from) {
  Scope scope = me.region("direct_all_to_all", from.bytes());
  const int p = me.size(), r = me.rank();
  std::vector<Transfer> batch;
  for (int i = 1; i < p; ++i) {
    const int next = (r + i) % p, previous = (r + p - i) % p;
    batch.push_back(send(next, chunk(from, next, p)));
    batch.push_back(receive(previous, chunk(to, previous, p)));
  }
  const Ticket ticket = me.start(batch);
  copy(me, chunk(to, r, p), chunk(from, r, p));
  me.wait(ticket);
}

void pairwise_all_to_all(Rank me, Slice to, Slice from) {
  Scope scope = me.region("pairwise_all_to_all", from.bytes());
  const int p = me.size(), r = me.rank();
  for (int i = 1; i < p; ++i) {
    const int next = (r + i) % p, previous = (r + p - i) % p;
    const Ticket ticket = me.start({send(next, chunk(from, next, p)), receive(previous, chunk(to, previous, p))});
    if (i == 1) copy(me, chunk(to, r, p), chunk(from, r, p));  // its own chunk, with the first message in flight
    me.wait(ticket);
  }
}

}  // namespace lockstep::bench

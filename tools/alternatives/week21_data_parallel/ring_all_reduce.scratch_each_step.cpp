// 21.2 with a scratch of its own for each step, and with what arrived first as the first operand of the sum.
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

#include <utility>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {
namespace {

/// One step of either trip: waits for what it started.
void step(Rank me, const Slice& outgoing, const Slice& incoming) {
  const int p = me.size();
  const Ticket both = me.start({send((me.rank() + 1) % p, outgoing), receive((me.rank() + p - 1) % p, incoming)});
  me.wait(both);
}

}  // namespace

void ring_reduce_scatter(Rank me, Slice data) {
  const int p = me.size();
  int sent = me.rank() + p - 1;
  for (int left = p - 1; left > 0; --left, --sent) {
    Slice mine = chunk(data, sent - 1, p);
    Slice received = me.allocate(mine.size(), data.dtype(), Category::buffer);
    step(me, chunk(data, sent, p), received);
    add(me, mine, received, mine);
  }
}

void ring_all_gather(Rank me, Slice data) {
  Slice outgoing = chunk(data, me.rank(), me.size());
  for (int behind = 1; behind < me.size(); ++behind) {
    Slice incoming = chunk(data, me.rank() - behind, me.size());
    step(me, outgoing, incoming);
    outgoing = std::move(incoming);
  }
}

void ring_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("ring_all_reduce", data.bytes());
  ring_reduce_scatter(me, data);
  ring_all_gather(me, data);
}

}  // namespace lockstep::week21

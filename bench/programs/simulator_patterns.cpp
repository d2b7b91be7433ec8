#include "bench/programs/simulator_patterns.hpp"

#include "bench/programs/pipelined_all_reduce.hpp"
#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "labs/week21_data_parallel/first_messages.hpp"
#include "labs/week21_data_parallel/halving_doubling.hpp"
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"
#include "labs/week21_data_parallel/naive_all_reduce.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

/// A binomial tree: reduces to the root, then broadcasts.
void tree_all_reduce(Rank me, const Slice& data) {
  const int p = me.size(), r = me.rank();
  Slice scratch = me.allocate(data.size(), data.dtype(), Category::buffer);
  int bit = 1;
  for (; bit < p && (r & bit) == 0; bit *= 2) {
    if (r + bit >= p) continue;
    me.exchange({receive(r + bit, scratch)});
    add(me, data, scratch);
  }
  if (r != 0) {
    me.exchange({send(r - bit, data)});
    me.exchange({receive(r - bit, data)});
  }
  for (bit /= 2; bit >= 1; bit /= 2)
    if (r + bit < p) me.exchange({send(r + bit, data)});
}

/// Every rank has a part for every other one. In step d it sends to the rank d further, and receives from the rank d
/// before.
void all_to_all(Rank me, const Slice& data) {
  const int p = me.size(), r = me.rank();
  Slice received = me.allocate(data.size(), data.dtype(), Category::buffer);
  for (int d = 1; d < p; ++d) {
    const int to = (r + d) % p, from = (r + p - d) % p;
    me.exchange({send(to, chunk(data, to, p)), receive(from, chunk(received, from, p))});
  }
}

/// The same messages, all started at once.
void all_to_all_at_once(Rank me, const Slice& data) {
  const int p = me.size(), r = me.rank();
  Slice received = me.allocate(data.size(), data.dtype(), Category::buffer);
  std::vector<Transfer> batch;
  for (int d = 1; d < p; ++d) {
    const int to = (r + d) % p, from = (r + p - d) % p;
    batch.push_back(send(to, chunk(data, to, p)));
    batch.push_back(receive(from, chunk(received, from, p)));
  }
  me.exchange(batch);
}

template <class F>
Pattern plain(const char* name, F act, bool meets_all = false) {
  return {name, [act](Rank me, const Slice& data) -> Turn { return [=] { act(me, data); }; }, meets_all};
}

/// Uses the largest node size that is at most the number of nodes.
Turn hierarchical(Rank me, const Slice& data) {
  int g = 1;
  while (4 * g * g <= me.size() && me.size() % (2 * g) == 0) g *= 2;
  const week21::Hierarchy groups = week21::split_by_node(me, g);
  return [=] { week21::hierarchical_all_reduce(groups, data); };
}

}  // namespace

std::vector<Pattern> simulator_patterns() {
  return {plain("naive", week21::naive_all_reduce),
          plain("recursive_doubling", week21::recursive_doubling_all_reduce),
          plain("rabenseifner", week21::rabenseifner_all_reduce),
          plain("ring", week21::ring_all_reduce),
          plain("pipelined", [](Rank me, const Slice& data) { pipelined_all_reduce(me, data); }),
          {"hierarchical", hierarchical},
          plain("tree", tree_all_reduce),
          plain("barrier", [](Rank me, const Slice&) { week21::barrier(me); }),
          plain("broadcast", [](Rank me, const Slice& data) { week21::broadcast(me, data, 0); }),
          plain("all_to_all", all_to_all, true),
          plain("all_to_all_at_once", all_to_all_at_once, true)};
}

}  // namespace lockstep::bench

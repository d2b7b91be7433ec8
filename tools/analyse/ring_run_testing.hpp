// A ring all-reduce, right or wrong, with its trace: what pages and tables show.
#pragma once

#include <sstream>
#include <vector>

#include "common/analysis/read_trace.hpp"
#include "common/analysis/write_trace.hpp"
#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::view {

/// Through a file, as the command gets it.
inline Trace read_back(const Trace& trace) {
  std::ostringstream text;
  write_chrome_trace(trace, text);
  return parse_chrome_trace(text.str(), "test");
}

/// A ring all-reduce whose first step begins `late` chunks too late, in the same way on every rank.
inline void ring(Rank me, Slice data, Slice scratch, int late = 0) {
  const int p = me.size(), r = me.rank(), next = (r + 1) % p, previous = (r + p - 1) % p;
  auto region = me.region("ring_all_reduce", data.bytes());
  for (int step = 0; step < p - 1; ++step) {
    const Slice in = chunk(data, r - step - 2 + late, p), space = scratch.cut(0, in.size());
    me.exchange({send(next, chunk(data, r - step - 1 + late, p)), receive(previous, space)});
    add(me, in, space);
  }
  for (int step = 0; step < p - 1; ++step)
    me.exchange({send(next, chunk(data, r - step, p)), receive(previous, chunk(data, r - step - 1, p))});
}

inline Outcome ring_run(int ranks, std::size_t size, int late = 0, int traced = 0) {
  RunOptions options{.ranks = ranks, .check_races = ranks < 100, .trace = true, .traced_ranks = traced};
  options.machine.eager_bytes = 0;
  options.machine.launch = 5e-7;  // arithmetic that is long compared with a nanosecond
  return run(options, [=](Rank me) {
    Slice data = me.allocate(size, DType::f32, Category::gradient);
    upload(me, data, std::vector<float>(size, static_cast<float>(me.rank() + 1)));
    ring(me, data, me.allocate(chunk(data, 0, ranks).size(), DType::f32, Category::buffer), late);
  });
}

}  // namespace lockstep::view

// Programs drawn at random, whose runs are traced.
#pragma once

#include <random>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::analysis {

/// The same calls on every rank; only how much arithmetic there is differs.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, bool contention) : seed_(seed), contention_(contention) {}

  void operator()(Rank me) const {
    std::mt19937 shared(seed_), own(seed_ * 1000 + static_cast<unsigned>(me.rank()) + 1);
    Rank comm = me.stream("comm");
    Rank half = me.split(me.rank() % 2, me.rank());
    Slice work = me.allocate(1 << 20, DType::f32, Category::buffer);
    Slice out = me.allocate(1 << 16, DType::f32, Category::buffer),
          in = me.allocate(1 << 16, DType::f32, Category::buffer);
    Slice main_out = me.allocate(1 << 16, DType::f32, Category::buffer),
          main_in = me.allocate(1 << 16, DType::f32, Category::buffer);
    for (int step = 0; step < 3; ++step) {
      auto region = me.region("step");
      Ticket ticket;
      for (int i = 0; i < 12; ++i) {
        fill(me, work.cut(0, own() % (1 << 20)), 0);
        const std::size_t count = shared() % 2 ? shared() % 1000 : shared() % (1 << 16);  // eager, or maybe not
        const int distance = 1 + static_cast<int>(shared() % 2);
        switch (shared() % 4) {
          case 0:
            me.wait(ticket);
            ticket = me.run(comm, [=](Rank queue) { ring(queue, distance, out.cut(0, count), in.cut(0, count)); });
            break;
          case 1: ring(me, distance, main_out.cut(0, count), main_in.cut(0, count)); break;
          case 2:
            if (!contention_)
              ring(me, 1, main_out.cut(0, count), main_in.cut(0, count));
            else if (half.size() > 1)
              ring(half, 1, main_out.cut(0, count), main_in.cut(0, count));
            break;
          default: late(me, work, main_out.cut(0, count), main_in.cut(0, count)); break;
        }
      }
      me.wait(ticket);
    }
  }

 private:
  /// Two messages, one after the other, and an addition.
  static void ring(Rank me, int distance, Slice out, Slice in) {
    auto region = me.region("ring", out.bytes());
    for (int turn = 0; turn < 2 && distance % me.size() != 0; ++turn)
      me.exchange({send((me.rank() + distance) % me.size(), out),
                   receive((me.rank() + me.size() - distance % me.size()) % me.size(), in)});
    add(me, in, out);
  }
  /// Waited for only after arithmetic.
  static void late(Rank me, Slice work, Slice out, Slice in) {
    const int p = me.size(), next = (me.rank() + 1) % p, previous = (me.rank() + p - 1) % p;
    const Ticket first = p > 1 ? me.start({send(next, out), receive(previous, in)}) : Ticket{};
    fill(me, work.cut(0, work.size() / 2), 0);
    me.wait(first);
  }

  unsigned seed_;
  bool contention_;  // two queues or groups may want one port
};

inline RunOptions traced(int ranks) {
  RunOptions options{.ranks = ranks, .phantom = true, .check_races = false, .trace = true};
  options.machine = Machine::uniform(3e-6, 1e-10, 1e-12);
  options.machine.launch = 2e-6;
  return options;
}

}  // namespace lockstep::analysis

// Ports of the simulated network: which ranks share them, and the resulting times.
#include <gtest/gtest.h>

#include "common/backends/tests/simulator/times.hpp"

namespace lockstep {
namespace {

using namespace simulator_tests;

void all_to_all(Rank me, std::size_t count, bool shifted) {
  std::vector<Transfer> batch;
  for (int i = 0; i < me.size(); ++i) {
    const int peer = shifted ? (me.rank() + i) % me.size() : i;
    if (peer == me.rank()) continue;
    batch.push_back(send(peer, me.allocate(count, DType::f32, Category::buffer)));
    batch.push_back(receive(peer, me.allocate(count, DType::f32, Category::buffer)));
  }
  me.exchange(std::span<const Transfer>(batch));
}

TEST(Contention, AnAllToAllTakesItsIdealTime) {
  for (int p : {2, 5, 8, 13, 64}) {
    const std::size_t count = 100'000;
    const double ideal = (p - 1) * 4.0 * count * kBeta + kAlpha;
    expect_close(run(on(p), [&](Rank me) { all_to_all(me, count, true); }).check().seconds, ideal);
  }
  // All ranks send to rank 0 first: messages to it queue, and others move meanwhile.
  expect_close(run(on(8), [&](Rank me) { all_to_all(me, 100'000, false); }).check().seconds, 7 * 4e5 * kBeta + kAlpha);
}

TEST(Contention, ReceiversShareTheirIngress) {
  // p − 1 senders to one receiver, for both eager and rendezvous sends: its port serves one at a time.
  for (std::size_t count : {1000u, 1'000'000u}) {
    const double time = run(on(5),
                            [&](Rank me) {
                              std::vector<Transfer> batch;
                              for (int peer = 1; me.rank() == 0 && peer < me.size(); ++peer)
                                batch.push_back(receive(peer, me.allocate(count, DType::f32, Category::buffer)));
                              if (me.rank() != 0)
                                batch.push_back(send(0, me.allocate(count, DType::f32, Category::buffer)));
                              me.exchange(std::span<const Transfer>(batch));
                            })
                            .check()
                            .seconds;
    expect_close(time, kAlpha + 4 * 4.0 * count * kBeta);
  }
}

TEST(Contention, ANodesPortIsSharedByItsRanks) {
  // Four ranks of one node send to four of the next: one after another through one port, all at once through rails.
  auto cross = [](Rank me) {
    Slice x = me.allocate(1'000'000, DType::f32, Category::buffer);
    if (me.rank() < 4)
      me.exchange({send(me.rank() + 4, x)});
    else
      me.exchange({receive(me.rank() - 4, x)});
  };
  const Machine rails = cluster(4, false), one_port = cluster(4, true);
  const double alpha = rails.alpha(1), bytes = 4e6;
  EXPECT_DOUBLE_EQ(alpha, 5e-6) << "latencies on the path add up";
  expect_close(run(on(8, rails), cross).check().seconds, alpha + bytes / 10e9);
  expect_close(run(on(8, one_port), cross).check().seconds, alpha + 4 * bytes / 10e9);
}

TEST(Contention, ABusIsBusyAtBothEnds) {
  // Two ranks per bus, two buses, fast links between them: a message each way crosses both buses, so one waits.
  Machine machine = Machine::uniform(1e-6, 1 / 10e9, kGamma);
  machine.levels = {{"bus", 2, 1e-6, 10e9, true}, {"across", 0, 1e-6, 100e9, false}};
  const double bytes = 4e6;
  const double crossing = run(on(4, machine),
                              [](Rank me) {
                                Slice x = me.allocate(1'000'000, DType::f32, Category::buffer);
                                if (me.rank() == 0) me.exchange({send(2, x)});
                                if (me.rank() == 2) me.exchange({receive(0, x)});
                                if (me.rank() == 3) me.exchange({send(1, x)});
                                if (me.rank() == 1) me.exchange({receive(3, x)});
                              })
                              .check()
                              .seconds;
  expect_close(crossing, machine.alpha(1) + 2 * bytes / 10e9);
  machine.levels = {{"bus", 0, 1e-6, 10e9, true}};  // one bus for all ranks
  const double one_bus = run(on(4, machine),
                             [](Rank me) {
                               Slice x = me.allocate(1'000'000, DType::f32, Category::buffer);
                               if (me.rank() % 2 == 0) me.exchange({send(me.rank() + 1, x)});
                               if (me.rank() % 2 == 1) me.exchange({receive(me.rank() - 1, x)});
                             })
                             .check()
                             .seconds;
  expect_close(one_bus, machine.alpha(0) + 2 * bytes / 10e9);
}

TEST(Contention, BothDirectionsAtOnce) {
  const double time = run(on(2),
                          [](Rank me) {
                            Slice a = me.allocate(1'000'000, DType::f32, Category::buffer);
                            Slice b = me.allocate(1'000'000, DType::f32, Category::buffer);
                            me.exchange({send(1 - me.rank(), a), receive(1 - me.rank(), b)});
                          })
                          .check()
                          .seconds;
  expect_close(time, kAlpha + 4e6 * kBeta);
}

}  // namespace
}  // namespace lockstep

// Explanations of misuse of the contract.
#include "common/backends/tests/support.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

struct Misuse {
  const char* name;
  int ranks;
  std::function<void(Rank)> program;
  std::vector<const char*> words;
};

Slice slice(Rank me) { return filled(me, 4, 1); }

/// A block put together over a vector.
struct Foreign : BlockOwner {
  explicit Foreign(std::vector<float>& values) {
    block.data = values.data(), block.bytes = values.size() * sizeof(float), block.owner = this;
  }
  void release(Block&) override {}
  Block block;
};

std::vector<Misuse> of_peers_and_slices() {
  return {
      {"peer outside the group",
       2,
       [](Rank me) { me.exchange({send(2, slice(me))}); },
       {"ranks of this group are 0 to 1"}},
      {"to myself", 2, [](Rank me) { me.exchange({send(me.rank(), slice(me))}); }, {"itself"}},
      {"never allocated", 2, [](Rank me) { me.exchange({send(1 - me.rank(), Slice())}); }, {"never allocated"}},
      {"cut too long", 1, [](Rank me) { (void)slice(me).cut(2, 3); }, {"outside"}},
      {"cut of less than nothing",
       1,
       [](Rank me) { (void)slice(me).cut(0, slice(me).size() - 5); },
       {"cut(0, 18446744073709551615) reaches outside a slice of 4 elements: sizes are unsigned, so 0 − 1 is"}},
      {"allocation of less than nothing",
       1,
       [](Rank me) { (void)me.allocate(slice(me).cut(0, 0).size() - 1, DType::f32, Category::buffer); },
       {"allocate(18446744073709551615 elements): sizes are unsigned, so 0 − 1 is 18446744073709551615"}},
      {"run on main", 1, [](Rank me) { me.wait(me.run(me, [](Rank) {})); }, {"stream"}},
      {"not a member",
       2,
       [](Rank me) {
         Rank none = me.split(-1, 0);
         (void)none.stream("comm");
       },
       {"not in this group"}},
      {"memory that no rank has allocated",
       2,
       [](Rank me) {
         std::vector<float> own(4);
         Foreign foreign(own);
         me.exchange({send(1 - me.rank(), Slice(foreign.block)), receive(1 - me.rank(), slice(me))});
       },
       {"send of memory that no rank has allocated, which no ledger counts"}},
      {"arithmetic on such memory",
       1,
       [](Rank me) {
         std::vector<float> own(4);
         Foreign foreign(own);
         add(me, slice(me), Slice(foreign.block));
       },
       {"add of memory that no rank has allocated"}},
      {"upload to such memory",
       1,
       [](Rank me) {
         std::vector<float> own(4);
         Foreign foreign(own);
         upload(me, Slice(foreign.block), own);
       },
       {"upload of memory that no rank has allocated"}},
      {"upload of the wrong length", 1, [](Rank me) { upload(me, slice(me), std::vector<float>{1}); }, {"upload"}},
  };
}

std::vector<Misuse> of_enumerators() {
  return {
      {"an allocation of no category",
       1,
       [](Rank me) { (void)me.allocate(4, DType::f32, Category{11}); },
       {"allocate(4 elements): there is no such dtype or category"}},
      {"an allocation of no dtype",
       1,
       [](Rank me) { (void)me.allocate(4, DType{9}, Category::buffer); },
       {"allocate(4 elements): there is no such dtype or category"}},
      {"neither sent nor received",
       2,
       [](Rank me) {
         me.exchange({Transfer{Transfer::Kind{2}, 1 - me.rank(), slice(me)}});
       },
       {"neither sends nor receives"}},
  };
}

std::vector<Misuse> of_queues() {
  return {
      {"queue outside its closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         add(comm, slice(me), slice(me));
       },
       {"comm", "outside its closure"}},
      {"main inside a closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         Slice x = slice(me);
         me.wait(me.run(comm, [=](Rank) { add(me, x, x); }));
       },
       {"inside a closure", "comm"}},
      {"set-up inside a closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         me.wait(me.run(comm, [](Rank r) { (void)r.stream("more"); }));
       },
       {"set-up"}},
      {"a batch waited for on another queue",
       2,
       [](Rank me) {
         Rank comm = me.stream("comm");
         Slice in = slice(me), out = slice(me);
         const int peer = 1 - me.rank();
         Ticket ticket = me.start({send(peer, out), receive(peer, in)});
         me.wait(me.run(comm, [=](Rank r) { r.wait(ticket); }));
         me.wait(ticket);
       },
       {"waited for on queue"}},
      {"nobody waits for a batch",
       2,
       [](Rank me) {
         Slice in = slice(me), out = slice(me);
         me.start({send(1 - me.rank(), out), receive(1 - me.rank(), in)});
       },
       {"without waiting", "misuse_test.cpp"}},
      {"nobody waits for a closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         me.run(comm, [](Rank) {});
       },
       {"without waiting", "comm"}},
      {"scratch outlives its closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         auto kept = std::make_shared<Slice>();
         me.wait(me.run(comm, [kept](Rank r) { *kept = r.allocate(4, DType::f32, kBuffer); }));
       },
       {"scratch"}},
  };
}

void expect_explained(const std::vector<Misuse>& misuses) {
  for (const Misuse& misuse : misuses) {
    if (!testing::has_ranks(misuse.ranks)) continue;
    SCOPED_TRACE(misuse.name);
    const Outcome outcome = run_on(misuse.ranks, [&](Rank me) {
      misuse.program(me);
      return Values{};
    });
    expect_failure(outcome, Verdict::usage, {"USAGE", "rank "});
    for (const char* word : misuse.words) EXPECT_NE(outcome.message.find(word), std::string::npos) << outcome.message;
  }
}

TEST(Misuse, OfPeersAndSlicesIsExplained) { expect_explained(of_peers_and_slices()); }

TEST(Misuse, OfEnumeratorsIsExplained) { expect_explained(of_enumerators()); }

TEST(Misuse, OfQueuesIsExplained) { expect_explained(of_queues()); }

TEST(Misuse, ASliceKeptOutsideTheProgramIsNamedAndMayGoLater) {
  NEED_RANKS(2);
  std::vector<Slice> kept(2);
  const auto program = [&](Rank me) {
    if (me.rank() == 1) kept[1] = me.allocate(4, DType::f32, Category::buffer);
    return Values{};
  };
  expect_failure(run_on(2, program), Verdict::usage, {"USAGE", "rank 1", "1 allocation outlives the program"});
  kept.clear();  // accesses a rank that has ended
  expect_failure(run_on(2, [](Rank) { return Values{}; }), Verdict::pass, {});
}

TEST(Misuse, OfRunItself) {
  EXPECT_THROW(run_on(0, [](Rank) { return Values{}; }), Error);
  const int available = testing::test_options().available_ranks;
  if (available == 0) return;
  EXPECT_THROW(run_on(available + 1, [](Rank) { return Values{}; }), Error);
  NEED_RANKS(2);
  RunOptions options = options_for(2);
  options.emulate = true;
  options.machine.levels.back().ranks = 1;  // all processes learn of it, including those that do not take part
  EXPECT_THROW(run(options, [](Rank) {}), Error);
}

}  // namespace
}  // namespace lockstep

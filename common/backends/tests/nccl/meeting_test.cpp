// Meeting of processes and their messages, with threads as processes; and the messages when a job cannot run.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <thread>

#include "common/backends/nccl/control.hpp"
#include "common/backends/nccl/load.hpp"
#include "common/backends/nccl/placement.hpp"
#include "common/error.hpp"
#include "common/runtime/processes/cores_per_rank.hpp"

namespace lockstep::nccl {
namespace {

Environment environment_of(const std::map<std::string, std::string>& variables) {
  return read_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Environment, OfOneProcess) {
  const Environment alone = environment_of({});
  EXPECT_EQ(alone.rank, 0);
  EXPECT_EQ(alone.ranks, 1);
  // A Slurm batch script is not a rank, although it knows the number of ranks.
  EXPECT_EQ(environment_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}}).ranks, 1);
}

TEST(Environment, OfLaunchers) {
  const Environment slurm = environment_of({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}});
  EXPECT_EQ(slurm.rank, 5);
  EXPECT_EQ(slurm.ranks, 8);
  EXPECT_FALSE(slurm.mpi);
  EXPECT_TRUE(environment_of({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "5"}}).mpi);
  EXPECT_TRUE(environment_of({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).mpi);
  EXPECT_TRUE(environment_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).mpi);
  // Explicit settings take precedence.
  const Environment ours = environment_of({{"LOCKSTEP_RANK", "2"},
                                           {"LOCKSTEP_RANKS", "3"},
                                           {"LOCKSTEP_STORE", "tcp://a:1"},
                                           {"OMPI_COMM_WORLD_RANK", "0"},
                                           {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(ours.rank, 2);
  EXPECT_EQ(ours.store, "tcp://a:1");
}

TEST(Environment, OfTorchrun) {
  const std::map<std::string, std::string> torchrun = {
      {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  const Environment found = environment_of(torchrun);
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.ranks, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.store, "tcp://node0:29500");
  const auto with = [&](std::map<std::string, std::string> more) {
    more.insert(torchrun.begin(), torchrun.end());
    return environment_of(more);
  };
  // torchrun's own store listens there: rank 0 takes the next port.
  EXPECT_EQ(with({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}).store, "tcp://node0:29501");
  EXPECT_EQ(with({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}).store, "tcp://node0:29500");
  EXPECT_EQ(with({{"LOCKSTEP_STORE", "tcp://a:1"}}).store, "tcp://a:1");
  // One torchrun per host, started by srun or mpirun: its processes inherit the variables that these set for torchrun.
  const Environment inherited = with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "0"}});
  EXPECT_EQ(inherited.rank, 5);
  EXPECT_FALSE(inherited.mpi);
  EXPECT_EQ(with({{"LOCKSTEP_RANK", "0"}, {"LOCKSTEP_RANKS", "2"}}).ranks, 2);
  // A RANK that another program has set.
  EXPECT_EQ(environment_of({{"RANK", "5"}, {"WORLD_SIZE", "8"}}).ranks, 1);
}

TEST(Load, SaysWhatMayHang) {
  const Load fits{.communicators = 5, .ctas = 8, .multiprocessors = 132, .streams = 12, .channels = 32};
  EXPECT_EQ(fits.words(),
            "5 communicators of at most 8 CTAs: 40 of 132 multiprocessors while all spin; 12 streams in 32 hardware "
            "channels");
  EXPECT_EQ(fits.warning(), "");
  Load full = fits;
  full.ctas = 32;
  EXPECT_NE(full.warning().find("NCCL_MAX_CTAS=26"), std::string::npos) << full.warning();
  full.ctas = 26;
  EXPECT_EQ(full.warning(), "");
  Load narrow = fits;
  narrow.channels = 8;
  EXPECT_NE(narrow.warning().find("12 streams share 8"), std::string::npos) << narrow.warning();
  EXPECT_NE(narrow.warning().find("CUDA_DEVICE_MAX_CONNECTIONS=32"), std::string::npos) << narrow.warning();
}

std::string complaint(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(Environment, BadInputIsOneSentence) {
  expect_words(complaint([] {
                 environment_of({{"LOCKSTEP_RANK", "x"}, {"LOCKSTEP_RANKS", "2"}});
               }),
               {"LOCKSTEP_RANK=x", "whole number"});
  expect_words(complaint([] {
                 environment_of({{"LOCKSTEP_RANK", "2"}, {"LOCKSTEP_RANKS", "2"}});
               }),
               {"2", "not one of 2 ranks"});
  std::map<std::string, std::string> torchrun = {
      {"RANK", "8"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  expect_words(complaint([&] { environment_of(torchrun); }), {"RANK=8", "not one of 8 ranks"});
  torchrun["MASTER_PORT"] = "http";
  expect_words(complaint([&] { environment_of(torchrun); }), {"MASTER_PORT=http", "whole number"});
  for (const char* store : {"tcp://host", "tcp://host:99999", "tcp://:1", "file:///x", "redis://x"})
    expect_words(complaint([&] { make_bootstrap({.rank = 1, .ranks = 2, .store = store}); }),
                 {store, "tcp://HOST:PORT"});
  expect_words(complaint([] { make_bootstrap({.rank = 1, .ranks = 4, .launcher = "SLURM_PROCID"}); }),
               {"rank 1 of 4", "SLURM_PROCID", "LOCKSTEP_STORE"});
}

/// Runs f(rank) on a thread per rank; rethrows the first exception.
void on_ranks(int ranks, const std::function<void(int)>& f) {
  std::vector<std::future<void>> futures;
  for (int rank = 0; rank < ranks; ++rank) futures.push_back(std::async(std::launch::async, f, rank));
  for (auto& future : futures) future.wait();
  for (auto& future : futures) future.get();
}

/// A store that no other job uses.
std::string free_store() { return "tcp://127.0.0.1:" + std::to_string(port_of(listen_at(0))); }

TEST(Bootstrap, GathersBroadcastsAndWaits) {
  for (int ranks : {1, 2, 5}) {
    const std::string store = free_store();
    on_ranks(ranks, [&](int rank) {
      const auto bootstrap = make_bootstrap({.rank = rank, .ranks = ranks, .store = store, .timeout_seconds = 20});
      for (int round = 0; round < 3; ++round) {
        std::vector<std::string> expected;
        for (int r = 0; r < ranks; ++r) expected.push_back(std::string(r * 1000 + round, static_cast<char>('a' + r)));
        EXPECT_EQ(bootstrap->all_gather(expected[rank]), expected) << store;
      }
      EXPECT_EQ(bootstrap->broadcast("from " + std::to_string(rank)), "from 0");
      bootstrap->barrier();
    });
  }
}

TEST(Bootstrap, NamesWhoDoesNotCome) {
  const std::string store = free_store();
  on_ranks(2, [&](int rank) {
    const std::string text = complaint(
        [&] { make_bootstrap({.rank = rank, .ranks = 3, .store = store, .timeout_seconds = 0.3})->barrier(); });
    if (rank == 0) expect_words(text, {"rank 0 waited 0.3 s", "rank 2 of 3, which did not connect"});
    if (rank == 1) expect_words(text, {"rank 0 at " + store + " was lost"});
  });
  expect_words(
      complaint([] { make_bootstrap({.rank = 1, .ranks = 2, .store = "tcp://127.0.0.1:1", .timeout_seconds = 0.1}); }),
      {"no answer from tcp://127.0.0.1:1", "rank 0"});
}

TEST(Bootstrap, StrangersAreNotLetIn) {
  const std::string store = free_store();
  const int port = std::stoi(store.substr(store.rfind(':') + 1));
  on_ranks(3, [&](int rank) {
    if (rank == 2) {  // says what none of us says, and a rank that is not in the job
      for (const std::string hello : {"GET / HTTP/1.1", "lockstep rank 7", "lockstep rank 0", "lockstep rank 1x"}) {
        Socket stranger;
        while (!(stranger = connect_to("127.0.0.1", port, 1))) std::this_thread::yield();
        stranger.send_text(hello);
      }
      return;
    }
    const auto bootstrap = make_bootstrap({.rank = rank, .ranks = 2, .store = store, .timeout_seconds = 20});
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(bootstrap->all_gather(std::to_string(rank)), (std::vector<std::string>{"0", "1"}));
  });
}

TEST(Control, NetworksAreNamedAsNcclDoes) {
  for (const char* list : {"ib0", "ib", "eth,ib", "=ib0", "=eth0,ib0", "^docker,lo", "^=ib", "^=ib00"})
    EXPECT_TRUE(is_named("ib0", list)) << list;
  for (const char* list : {"", "ib1", "=ib", "^ib", "^lo,ib0", "^=ib0", ","})
    EXPECT_FALSE(is_named("ib0", list)) << list;
}

/// Connects `ranks` processes and runs f(control) on each.
void with_control(int ranks, const std::function<void(Control&)>& f,
                  const std::function<void(int me, int lost)>& lost = {}) {
  const std::string store = free_store();
  on_ranks(ranks, [&](int rank) {
    const auto bootstrap = make_bootstrap({.rank = rank, .ranks = ranks, .store = store, .timeout_seconds = 20});
    Control control(*bootstrap, 20, {.lost = [&, rank](int who) { lost(rank, who); }, .ended = {}});
    f(control);
  });
}

TEST(Control, MessagesOfALabelArriveInOrder) {
  with_control(3, [](Control& control) {
    const int me = control.rank(), to = (me + 1) % 3, from = (me + 2) % 3;
    for (int i = 0; i < 100; ++i) {
      control.send(to, {Label::Kind::header, 1, 7}, std::to_string(i) + std::string(i, '.'));
      control.send(to, {Label::Kind::header, 1, 8}, "other");
    }
    for (int i = 0; i < 100;) {
      const std::uint64_t seen = control.news();
      const auto text = control.take(from, {Label::Kind::header, 1, 7});
      if (text) {
        ASSERT_EQ(*text, std::to_string(i) + std::string(i, '.'));
        ++i;
      } else {
        control.wait_for_news(seen, std::chrono::seconds(1));
      }
    }
  });
}

TEST(Control, GathersAmongSomeOrAll) {
  with_control(5, [](Control& control) {
    const std::string me = std::to_string(control.rank());
    EXPECT_EQ(all_gather(control, {.run = 1}, {0, 1, 2, 3, 4}, me),
              (std::vector<std::string>{"0", "1", "2", "3", "4"}));
    if (control.rank() % 2 != 0) return;
    EXPECT_EQ(all_gather(control, {.run = 1, .key = 5}, {4, 0, 2}, me), (std::vector<std::string>{"4", "0", "2"}));
  });
}

TEST(Control, WaitingForOneThatHasLeftIsAnError) {
  with_control(2, [](Control& control) {
    if (control.rank() == 1) return;
    expect_words(complaint([&] { all_gather(control, {.run = 1}, {0, 1}, ""); }), {"rank 0 waits for rank 1", "left"});
  });
}

TEST(Control, ForgetsEarlierRuns) {
  with_control(1, [](Control& control) {
    control.send(0, {.run = 1}, "old");
    control.send(0, {.run = 2}, "new");
    control.forget_before(2);
    control.send(0, {.run = 1}, "late");
    EXPECT_FALSE(control.take(0, {.run = 1}));
    EXPECT_EQ(control.take(0, {.run = 2}), "new");
  });
}

// Placement ----------------------------------------------------------------------------------------------------------

Placement place(const std::string& host, int local_rank, int gpus, const std::string& id) {
  return {
      .host = host, .local_rank = local_rank, .gpus = gpus, .gpu = local_rank % gpus, .gpu_name = "GPU", .gpu_id = id};
}

TEST(Placement, OneGpuEachIsFine) {
  const std::vector<Placement> places{place("a", 0, 2, "x"), place("a", 1, 2, "y"), place("b", 0, 1, "x")};
  EXPECT_EQ(objection(places, 22809, false).text, "");
  // Slurm may show each process only its own GPU.
  EXPECT_EQ(objection({place("a", 0, 1, "x"), place("a", 1, 1, "y")}, 22809, false).text, "");
}

TEST(Placement, EveryHostNeedsACoreForEachOfItsRanks) {
  std::vector<Placement> places{place("a", 0, 2, "x"), place("b", 0, 2, "x"), place("b", 1, 2, "y")};
  places[0].cores = 8;
  places[1].cores = places[2].cores = 1;
  EXPECT_TRUE(has_core_each(places, 2));
  EXPECT_FALSE(has_core_each(places, 3)) << "host a has cores for its ranks, host b has not";
  EXPECT_EQ(cores_per_rank(places, 0, 3), 8);
  EXPECT_EQ(cores_per_rank(places, 2, 3), 0);
}

TEST(Placement, SharingAGpuNeedsALaterNccl) {
  const std::vector<Placement> places{place("a", 0, 1, "x"), place("a", 1, 1, "x"), place("a", 2, 1, "x")};
  expect_words(objection(places, 22809, true).text,
               {"ranks 0 and 1 would share GPU 0 of a", "3 ranks there, 1 GPU)", "NCCL 2.28.9", "at most 1 rank on",
                "--backend cuda", "2.30.0 and later"});
  expect_words(objection(places, 23001, false).text, {"NCCL_MULTI_RANK_GPU_ENABLE=1"});
  EXPECT_EQ(objection(places, 23001, true).text, "");
}

TEST(Placement, TroubleIsSaidOfTheFirst) {
  std::vector<Placement> places{place("a", 0, 1, "x"), place("b", 0, 1, "x")};
  places[1].trouble = "no CUDA device (why)";
  places[1].no_device = true;
  EXPECT_EQ(objection(places, 22809, false).text, "rank 1: no CUDA device (why)");
  EXPECT_TRUE(objection(places, 22809, false).no_device);
  expect_words(objection({place("a", 0, 1, "x")}, 21602, false).text, {"NCCL 2.16.2 is too old", "2.18.3"});
}

}  // namespace
}  // namespace lockstep::nccl

// Tests of exercise 21.13: who this process is, Slurm's host lists, where ranks meet, and their GPUs.
#include <set>

#include "common/testing/answered.hpp"
#include "labs/week21_data_parallel/launch_testing.hpp"

namespace lockstep::week21::launch_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto place_of = testing::answer<week21::place_of>;
constexpr auto numbers_in = testing::answer<week21::numbers_in>;
constexpr auto hosts_in = testing::answer<week21::hosts_in>;
constexpr auto meeting_point = testing::answer<week21::meeting_point>;
constexpr auto gpu_of = testing::answer<week21::gpu_of>;

void expect_place(const Environment& environment, const Place& wanted, const std::string& what) {
  const auto words = [](const Place& p) {
    return fmt::format("rank {} of {}, local rank {}, {} restarts, by '{}'", p.rank, p.ranks, p.local_rank, p.restarts,
                       p.launcher);
  };
  const auto is =
      unless_refused(fmt::format("{}: expected {}. The variables:{}", what, words(wanted), environment.words()),
                     [&] { return place_of(environment.variables()); });
  if (is && words(*is) != words(wanted))
    ADD_FAILURE() << what << ": it is " << words(*is) << ", expected " << words(wanted)
                  << ". The variables:" << environment.words();
}
void expect_refused(const Environment& environment, const std::string& word, const std::string& what) {
  expect_error(Verdict::usage, word, what + "; the variables:" + environment.words(),
               [&] { place_of(environment.variables()); });
}

struct Kind {
  Launcher launcher;
  Environment (*start)(Started);
};
const std::vector<Kind> kKinds = {{kTorchrun, [](Started s) { return by_torchrun(s); }},
                                  {kOpenMpi, by_open_mpi},
                                  {kPmi, by_mpich},
                                  {kSlurm, by_slurm}};

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab21_13a, EachLauncherSaysWho) {
  std::mt19937 random = random_for(1);
  for (int i = 0; i < 40; ++i)
    for (const Kind& kind : kKinds) {
      const int per_host = draw(random, 1, 8), ranks = per_host * draw(random, 1, 40);
      const Started s{draw(random, 0, ranks - 1), ranks, per_host};
      expect_place(kind.start(s), {kind.launcher.name, s.rank, s.ranks, s.local(), 0},
                   fmt::format("started by {}", kind.launcher.name));
      if (HasFailure()) return;
    }
}

TEST(Lab21_13a, NobodyStartedIt) {
  expect_place({}, {}, "no launcher's variables: alone");
  expect_place(in_a_shell_of_slurm(8), {}, "in the shell of salloc, which is not a task of srun: alone");
  expect_place({{{"MASTER_ADDR", "gpu01"}, {"MASTER_PORT", "29500"}}}, {},
               "an address says nothing about ranks: alone");
}

TEST(Lab21_13a, OneLauncherStartsAnother) {
  const Started agent{1, 2, 1}, worker{11, 16, 8};
  expect_place(by_slurm(agent).with(by_torchrun(worker)), {"torchrun", 11, 16, 3, 0},
               "srun starts a torchrun on each host");
  expect_place(by_open_mpi(agent).with(by_torchrun(worker)), {"torchrun", 11, 16, 3, 0},
               "mpirun starts a torchrun on each host");
  expect_place(by_open_mpi(agent).with(by_mpich({0, 2, 2})).with(by_torchrun(worker)), {"torchrun", 11, 16, 3, 0},
               "torchrun starts after launchers that contradict each other");
  expect_place(by_slurm({0, 4, 4}).with(by_open_mpi(worker)), {"Open MPI", 11, 16, 3, 0}, "mpirun in a batch script");
  expect_place(by_slurm({0, 4, 4}).with(by_mpich(worker)), {"PMI", 11, 16, 3, 0}, "mpiexec of MPICH in a batch script");
  expect_place(by_slurm(worker).with({{{"PMI_RANK", "11"}, {"PMI_SIZE", "16"}}}), {"PMI", 11, 16, 3, 0},
               "srun --mpi=pmi2: the local rank is Slurm's");
  expect_place(by_mpich(worker).with(by_open_mpi(worker)), {"Open MPI", 11, 16, 3, 0}, "Open MPI and PMI agree");
}

TEST(Lab21_13a, WhatIsMissingIsNamed) {
  for (const Kind& kind : kKinds) {
    const Environment all = kind.start({3, 8, 4});
    const Launcher& by = kind.launcher;
    expect_refused(all.without(by.ranks), by.ranks, fmt::format("{} does not say how many ranks there are", by.name));
    expect_refused(all.without(by.local_rank), by.local_rank, fmt::format("{} does not say the local rank", by.name));
    if (by.name == std::string("Slurm"))
      expect_place(all.without(by.rank), {}, "SLURM_NTASKS without SLURM_PROCID is a shell's: alone");
    else
      expect_refused(all.without(by.rank), by.rank, fmt::format("{} does not say the rank", by.name));
  }
  expect_refused(by_slurm({3, 8, 4}).with("WORLD_SIZE", "8"), "RANK", "srun, and only half of torchrun's variables");
}

TEST(Lab21_13a, WhatIsNoNumberIsNamed) {
  for (const Kind& kind : kKinds)
    for (const char* name : {kind.launcher.rank, kind.launcher.ranks, kind.launcher.local_rank})
      for (const char* value : {"", "two", "1x", " 1", "1 ", "+1", "-1", "1.0", "0x1", "4294967297"})
        expect_refused(kind.start({3, 8, 4}).with(name, value), name, fmt::format("{}='{}'", name, value));
}

TEST(Lab21_13a, WhatDoesNotFitIsNamed) {
  for (const Kind& kind : kKinds) {
    const Environment all = kind.start({3, 8, 4});
    const Launcher& by = kind.launcher;
    expect_refused(all.with(by.rank, "8"), by.rank, "rank 8 of 8");
    expect_refused(all.with(by.local_rank, "8"), by.local_rank, "local rank 8 of 8 ranks");
    expect_refused(all.with(by.ranks, "0"), by.ranks, "a job of no ranks");
  }
  for (const auto& [name, value] : {std::pair{"PMI_RANK", "2"}, {"PMI_SIZE", "16"}})
    expect_refused(by_mpich({3, 8, 4}).with(name, value).with(by_open_mpi({3, 8, 4})), "PMI_RANK",
                   fmt::format("Open MPI says rank 3 of 8, and PMI {}={}", name, value));
}

TEST(Lab21_13a, Restarts) {
  for (int restarts : {1, 3})
    expect_place(by_torchrun({5, 8, 8}, restarts), {"torchrun", 5, 8, 5, restarts}, "after restarts");
  expect_place(by_torchrun({5, 8, 8}).without("TORCHELASTIC_RESTART_COUNT"), {"torchrun", 5, 8, 5, 0},
               "torchrun does not count");
  expect_place(by_torchrun({5, 8, 8}, 7).without("TORCHELASTIC_MAX_RESTARTS"), {"torchrun", 5, 8, 5, 7}, "no limit");
  expect_place(by_slurm({5, 8, 8}).with("TORCHELASTIC_RESTART_COUNT", "2"), {"Slurm", 5, 8, 5, 0},
               "the restarts are torchrun's, and Slurm started this");
  expect_refused(by_torchrun({5, 8, 8}, 4), "TORCHELASTIC_RESTART_COUNT", "the fourth restart of at most three");
  expect_refused(by_torchrun({5, 8, 8}).with("TORCHELASTIC_RESTART_COUNT", "once"), "TORCHELASTIC_RESTART_COUNT",
                 "'once'");
}

// Part b --------------------------------------------------------------------------------------------------------------

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : " ") + name;
  return all;
}

TEST(Lab21_13b, Numbers) {
  EXPECT_EQ(joined(numbers_in("01-03,07")), "01 02 03 07") << "01-03,07";
  EXPECT_EQ(joined(numbers_in("8-11")), "8 9 10 11") << "8-11: the first has one digit";
  EXPECT_EQ(joined(numbers_in("08-11")), "08 09 10 11") << "08-11: the first has two";
  EXPECT_EQ(joined(numbers_in("098-101,5")), "098 099 100 101 5") << "098-101,5";
  EXPECT_EQ(joined(numbers_in("9-9,000")), "9 000") << "9-9,000: a range of one, and zeros";
  EXPECT_EQ(numbers_in("0-99999").size(), 100'000u) << "0-99999: a hundred thousand are not too many";
}

TEST(Lab21_13b, WhatAreNoNumbersIsRefused) {
  for (const char* list : {"", ",", "1,,2", "1,", "3-1", "1-", "-1", "a-b", "1-2-3", "1 ", "0-2000000000"})
    expect_error(Verdict::usage, "", fmt::format("numbers_in(\"{}\")", list), [&] { numbers_in(list); });
  expect_error(Verdict::usage, "", "numbers_in(\"0-99999,1\"), which are more than 100,000",
               [] { numbers_in("0-99999,1"); });
}

// Part c --------------------------------------------------------------------------------------------------------------

void expect_hosts(const std::string& list, const std::string& wanted) {
  const auto is = unless_refused(fmt::format("hosts_in(\"{}\"): expected\n  {}", list, wanted),
                                 [&] { return joined(hosts_in(list)); });
  if (is && *is != wanted) ADD_FAILURE() << "hosts_in(\"" << list << "\") is\n  " << *is << "\nexpected\n  " << wanted;
}

TEST(Lab21_13c, Hosts) {
  expect_hosts("login", "login");
  expect_hosts("gpu[01-03,07]", "gpu01 gpu02 gpu03 gpu07");
  expect_hosts("gpu[01-03,07],login,cpu1", "gpu01 gpu02 gpu03 gpu07 login cpu1");
  expect_hosts("r[1-2]n[0-1]-ib", "r1n0-ib r1n1-ib r2n0-ib r2n1-ib");
  expect_hosts("node-a[9-10].site.org,[1-2]", "node-a9.site.org node-a10.site.org 1 2");
}

/// A list and, counted separately, what it stands for.
TEST(Lab21_13c, DrawnLists) {
  std::mt19937 random = random_for(2);
  for (int i = 0; i < 60; ++i) {
    std::string list;
    std::vector<std::string> wanted;
    for (int item = draw(random, 1, 4); item > 0; --item) {
      std::vector<std::vector<std::string>> parts;
      std::string text;
      for (int part = draw(random, 1, 3); part > 0; --part) {
        const std::string letters(static_cast<std::size_t>(draw(random, 1, 3)), static_cast<char>('a' + part));
        parts.push_back({letters});
        text += letters;
        if (draw(random, 0, 2) == 0) continue;
        std::string inside;
        std::vector<std::string> numbers;
        for (int range = draw(random, 1, 3); range > 0; --range) {
          const int first = draw(random, 0, 120), last = first + draw(random, 0, 12), width = draw(random, 1, 4);
          const auto padded = [width](int n) { return fmt::format("{:0{}}", n, width); };
          inside += inside.empty() ? "" : ",";
          inside += first == last ? padded(first) : padded(first) + "-" + padded(last);
          for (int n = first; n <= last; ++n)
            numbers.push_back(fmt::format("{:0{}}", n, static_cast<int>(padded(first).size())));
        }
        text += "[" + inside + "]";
        parts.push_back(numbers);
      }
      list += (list.empty() ? "" : ",") + text;
      std::size_t all = 1;
      for (const auto& part : parts) all *= part.size();
      for (std::size_t which = 0; which < all; ++which) {
        std::size_t left = which;
        std::string name;
        for (auto part = parts.rbegin(); part != parts.rend(); left /= part->size(), ++part)
          name = (*part)[left % part->size()] + name;
        wanted.push_back(name);
      }
    }
    expect_hosts(list, joined(wanted));
    if (HasFailure()) return;
  }
}

TEST(Lab21_13c, WhatIsNoListIsRefused) {
  for (const char* list :
       {"", ",", "a,,b", "a,", "gpu[1-3", "gpu1-3]", "gpu[[1]]", "gpu[]", "gpu[3-1]", "gpu[1-]", "gpu[-1]", "gpu[a-b]",
        "gpu[1,,2]", "gpu[1-2-3]", "gpu[1 ]", "gpu[0-2000000000]", "gpu[0-99999,1]", "gpu[1-999][1-999]"})
    expect_error(Verdict::usage, "", fmt::format("hosts_in(\"{}\")", list), [&] { hosts_in(list); });
}

// Part d --------------------------------------------------------------------------------------------------------------

void expect_meeting(const Environment& environment, const Place& place, const std::string& host, int port,
                    const std::string& what) {
  const auto is =
      unless_refused(fmt::format("{}: expected {}:{}. The variables:{}", what, host, port, environment.words()),
                     [&] { return meeting_point(environment.variables(), place); });
  if (is && (is->host != host || is->port != port))
    ADD_FAILURE() << what << ": they meet at " << is->host << ":" << is->port << ", expected " << host << ":" << port
                  << ". The variables:" << environment.words();
}

TEST(Lab21_13d, WhereTheyMeet) {
  const Place several{"Slurm", 3, 8, 3, 0};
  expect_meeting(by_torchrun({3, 8, 8}), {"torchrun", 3, 8, 3, 0}, "gpu01", 29400, "torchrun sets the address");
  expect_meeting(by_slurm({3, 8, 2}), several, "gpu07", 30007, "the first of gpu[07-09,12], 20000 + 70007 mod 20000");
  expect_meeting(by_slurm({3, 8, 2}).with("SLURM_STEP_NODELIST", "gpu[09,12]"), several, "gpu09", 30007,
                 "srun uses some of the job's hosts: rank 0 is on the first of these");
  expect_meeting(by_slurm({3, 8, 2}).without("SLURM_JOB_NODELIST").with("SLURM_NODELIST", "n[3-4]"), several, "n3",
                 30007, "the list's older name");
  expect_meeting(by_slurm({3, 8, 2}).with({{{"MASTER_ADDR", "ib7"}, {"MASTER_PORT", "65535"}}}), several, "ib7", 65535,
                 "a batch script sets the address");
  expect_meeting({}, {}, "127.0.0.1", 29500, "one rank alone");
  expect_meeting(in_a_shell_of_slurm(8), {}, "127.0.0.1", 29500,
                 "one rank alone, in a shell that may be on a login host");
  std::mt19937 random = random_for(3);
  for (int i = 0; i < 20; ++i) {
    const int job = draw(random, 0, 50'000'000), first = draw(random, 1, 90);
    expect_meeting(by_slurm({3, 8, 2})
                       .with("SLURM_JOB_ID", fmt::to_string(job))
                       .with("SLURM_JOB_NODELIST", fmt::format("h[{:03}-{:03}]", first, first + 3)),
                   several, fmt::format("h{:03}", first), 20000 + job % 20000, "drawn");
  }
}

TEST(Lab21_13d, WhereTheyMeetIsRefused) {
  const Environment both = by_torchrun({3, 8, 8});
  const auto refused = [](const Environment& environment, const std::string& word, const std::string& what) {
    for (int ranks : {1, 8})
      if (ranks == 8 || environment.values.contains("MASTER_ADDR") || environment.values.contains("MASTER_PORT"))
        expect_error(Verdict::usage, word, what, [&] {
          meeting_point(environment.variables(), {"torchrun", 0, ranks, 0, 0});
        });
  };
  refused(both.without("MASTER_PORT"), "MASTER_PORT", "an address without its port");
  refused(both.without("MASTER_ADDR"), "MASTER_ADDR", "a port without its address");
  refused(both.with("MASTER_ADDR", ""), "MASTER_ADDR", "an empty address");
  for (const char* port : {"", "0", "65536", "http", "29500x", "-1"})
    refused(both.with("MASTER_PORT", port), "MASTER_PORT", fmt::format("MASTER_PORT='{}'", port));
  refused(by_open_mpi({3, 8, 8}), "MASTER_ADDR", "mpirun does not set the address");
  refused(by_slurm({3, 8, 8}).without("SLURM_JOB_ID"), "SLURM_JOB_ID", "Slurm without the job's number");
  refused(by_slurm({3, 8, 8}).with("SLURM_JOB_NODELIST", "gpu[1-"), "gpu[1-", "half a list");
}

TEST(Lab21_13d, EachItsGpu) {
  const auto gpu = [](int local, int visible) { return gpu_of({"torchrun", 7 + local, 24, local, 0}, visible); };
  for (int visible : {2, 4, 8}) {
    std::set<int> used;
    for (int local = 0; local < visible; ++local) used.insert(gpu(local, visible));
    EXPECT_EQ(static_cast<int>(used.size()), visible) << visible << " ranks of a host: each has a GPU of its own";
    EXPECT_EQ(gpu(1, visible), 1) << "local rank 1, which is rank 8 of the job: GPU 1 of " << visible;
    expect_error(Verdict::usage, fmt::to_string(visible), fmt::format("local rank {0} of {0} GPUs", visible),
                 [&] { gpu(visible, visible); });
  }
  EXPECT_EQ(gpu(5, 1), 0) << "one is visible: it is this rank's own";
  EXPECT_EQ(gpu(0, 0), -1) << "none is visible: the CPU";
  EXPECT_EQ(gpu(5, 0), -1) << "none is visible: the CPU";
}

// All parts -----------------------------------------------------------------------------------------------------------

TEST(Lab21_13, FromTheEnvironmentToTheGpu) {
  const Environment environment = by_slurm({5, 8, 4});
  const Place place = place_of(environment.variables());
  EXPECT_EQ(meeting_point(environment.variables(), place).host, "gpu07") << "the first of gpu[07-09,12]";
  EXPECT_EQ(gpu_of(place, 4), 1) << "rank 5 is the second of its host";
}

}  // namespace
}  // namespace lockstep::week21::launch_test

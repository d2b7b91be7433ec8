// Tests how programs are started: the command lines, and what launch/srun.sh makes of them, with a Slurm that only
// repeats them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/error.hpp"
#include "common/support/tests/folder_testing.hpp"
#include "tools/course/paths.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

Paths paths() { return {.source = "/src", .build = "/build", .labs = {}, .course = {}}; }
using Words = std::vector<std::string>;

TEST(Launch, OneProcessNeedsNoLauncher) {
  EXPECT_EQ(launch(paths(), "/p", {.backend = "sim"}), Words{"/p"});
  EXPECT_EQ(launch(paths(), "/p", {.backend = "cuda", .around = {"nsys", "profile"}}),
            (Words{"nsys", "profile", "/p"}));
}

TEST(Launch, ProcessesHaveALauncher) {
  EXPECT_EQ(launch(paths(), "/p", {.backend = "mpi", .processes = 4, .launcher = "mpirun", .timeout_seconds = 1.5}),
            (Words{"sh", "/src/launch/mpirun.sh", "-n", "4", "--timeout", "2", "/p"}));
  EXPECT_EQ(
      launch(paths(), "/p", {.backend = "nccl", .processes = 16, .launcher = "srun", .nodes = 2, .around = {"nsys"}}),
      (Words{"sh", "/src/launch/srun.sh", "-n", "16", "--nodes", "2", "nsys", "/p"}));
}

TEST(Launch, WhatCannotBeStartedIsRefused) {
  EXPECT_THROW(launch(paths(), "/p", {.backend = "nccl", .processes = 5, .nodes = 2}), Error);
  EXPECT_THROW(launch(paths(), "/p", {.backend = "nccl", .processes = 4, .launcher = "mpriun"}), Error);
  EXPECT_THROW(launch(paths(), "/p", {.backend = "mpi", .processes = 4, .launcher = "local"}), Error);
  EXPECT_THROW(launch(paths(), "/p", {.backend = "mpi", .processes = 1'000'000}), Error);
  EXPECT_THROW(launch(paths(), "/p", {.backend = "nccl", .processes = 1'000'000, .nodes = 10}), Error);
  EXPECT_NO_THROW(launch(paths(), "/p", {.backend = "mpi", .processes = 256}));
}

/// The output of `command` in one line; its exit code behind it.
std::string said(const Words& command) {
  std::string text;
  Command run{.arguments = command, .folder = {}};
  run.on_line = [&](std::string_view line) { text.append(line).append(" "); };
  const Ended ended = run_command(run);
  return text + "-> " + std::to_string(ended.exit_code);
}

using Launcher = TestFolder;

TEST_F(Launcher, SrunGetsRanksNodesAndMpi) {
  const fs::path fake =
      script("srun", "[ \"$1\" = --mpi=list ] && { echo none pmix; exit; }\necho \"$SLURM_MPI_TYPE:\" \"$@\"\n");
  setenv("SRUN", fake.c_str(), 1);
  unsetenv("SLURM_MPI_TYPE");
  const std::string launcher = LOCKSTEP_SOURCE_DIR "/launch/srun.sh";
  EXPECT_EQ(said({"sh", launcher, "-n", "16", "--nodes", "2", "prog", "--x", "a b"}),
            "pmix: --ntasks=16 --nodes=2 --ntasks-per-node=8 --kill-on-bad-exit=1 --cpu-bind=none prog --x a b -> 0");
  EXPECT_EQ(said({"sh", launcher, "-n", "3", "--nodes", "2", "prog"}),
            launcher + ": 3 ranks cannot be distributed evenly over 2 nodes -> 2");
  EXPECT_EQ(said({"sh", launcher, "-n", "2", "--timeout", "9", "prog"}).substr(0, 17), "pmix: --ntasks=2 ");
  setenv("SRUN", "/nowhere/srun", 1);
  EXPECT_EQ(said({"sh", launcher, "-n", "2", "prog"}),
            launcher + ": srun is not installed: this is not a Slurm machine; use --launcher mpirun -> 2");
  unsetenv("SRUN");
}

TEST_F(Launcher, MpirunIsTheOneBesideTheProgramsLibrary) {
  const std::string path = std::getenv("PATH"), launcher = LOCKSTEP_SOURCE_DIR "/launch/mpirun.sh",
                    f = folder_.string();
  auto linked_with = [&](const std::string& library) {
    script("path/ldd", "echo ' libm.so.6 => /lib/libm.so.6 (0x1)'; echo ' " + library + " (0x2)'\n");
  };
  auto mpirun = [&](const std::string& where, const std::string& version) {
    script(where, "[ $1 = --version ] && { echo '" + version + "'; exit; }\necho " + where +
                      ": \"$@\" ${MPIRUN_TEST_ECHO:+yields=$MPIR_CVAR_ENABLE_HEAVY_YIELD}\n");
  };
  mpirun("path/mpirun", "mpirun (Open MPI) 4.1.4");
  mpirun("path/mpirun.mpich", "HYDRA build details:");
  mpirun("five/bin/mpirun", "mpirun (Open MPI) 5.0.11");
  mpirun("intel/bin/mpirun", "Intel(R) MPI Library for Linux* OS");
  setenv("PATH", (f + "/path:" + path).c_str(), 1);
  const Words start{"sh", launcher, "-n", "2", f + "/prog", "-a"};
  const std::string arguments = ": -n 2 " + f + "/prog -a";

  linked_with("libmpi.so.40 => " + f + "/five/lib/libmpi.so.40");
  EXPECT_EQ(said(start), "five/bin/mpirun" + arguments + " -> 0");  // version 5 takes no -q
  linked_with("libmpi.so.12 => " + f + "/intel/lib/release/libmpi.so.12");
  EXPECT_EQ(said(start), "intel/bin/mpirun" + arguments + " -> 0");
  linked_with("libmpich.so.12 => /lib/x86_64-linux-gnu/libmpich.so.12");
  EXPECT_EQ(said(start), "path/mpirun.mpich" + arguments + " -> 0");
  setenv("MPIRUN_TEST_ECHO", "1", 1);
  EXPECT_EQ(said({"sh", launcher, "-n", "5000", f + "/prog"}),
            "path/mpirun.mpich: -n 5000 " + f + "/prog yields=1 -> 0");
  unsetenv("MPIRUN_TEST_ECHO");
  setenv("MPIRUN", (f + "/path/mpirun").c_str(), 1);
  EXPECT_EQ(said(start), "path/mpirun" + arguments + " -> 0");
  unsetenv("MPIRUN");
  setenv("PATH", path.c_str(), 1);
}

// The job gets SIGUSR1 and may save; a second interrupt, or the end of the grace, ends it.
TEST_F(Launcher, LetsAnInterruptedJobSaveBeforeItEnds) {
  const std::string launcher = LOCKSTEP_SOURCE_DIR "/launch/mpirun.sh", up = file("up"), heard = file("heard");
  const auto interrupted = [&](const std::string& on_signal, const std::string& grace, const std::string& times) {
    script("mpirun", "[ $1 = --version ] && { echo 'mpirun (Open MPI) 4.1.4'; exit; }\ntrap ': >" + heard + "; " +
                         on_signal + "' USR1\n: >" + up + "\nwhile :; do sleep 0.1; done\n");
    const std::string run = "rm -f " + up + " " + heard + "; MPIRUN=" + file("mpirun") + " sh " + launcher + " -n 2 " +
                            grace + " prog & until [ -e " + up + " ]; do sleep 0.05; done; for i in " + times +
                            "; do kill -TERM $!; while kill -0 $! 2>/dev/null && [ ! -e " + heard +
                            " ]; do sleep 0.05; done; done; wait $!";
    return said({"sh", "-c", run});
  };
  EXPECT_EQ(interrupted("echo saved; exit 3", "--grace 60", "1"), "saved -> 143");
  EXPECT_EQ(interrupted("echo saved; exit 0", "--grace 60", "1"), "saved -> 0") << "it was at its end";
  EXPECT_EQ(interrupted("trap : USR1; echo not yet", "--grace 60", "1 2"), "not yet -> 143");
  EXPECT_EQ(interrupted("trap : USR1; echo not yet", "--grace 1", "1"),
            "not yet " + launcher + ": the job did not end within 1 s after it was interrupted; it is stopped -> 143");
  EXPECT_EQ(interrupted("echo saved", "", "1"), "-> 143");
  EXPECT_EQ(said({"sh", launcher, "-n", "2", "--timeout", "0", "prog"}),
            launcher + ": --timeout needs a whole number of seconds, not '0' -> 2");
}

TEST(Launch, LocalProcessesMeetAtAPortAndEndTogether) {
  const std::string script = LOCKSTEP_SOURCE_DIR "/launch/local.sh";
  EXPECT_EQ(said({"sh", script, "-n", "1", "sh", "-c", "echo $LOCKSTEP_RANK/$LOCKSTEP_RANKS ${LOCKSTEP_STORE%:*}"}),
            "0/1 tcp://127.0.0.1 -> 0");
  EXPECT_EQ(said({"sh", script, "-n", "3", "sh", "-c", "[ $LOCKSTEP_RANK != 1 ] || exit 3; exec sleep 60"}), "-> 3");
  EXPECT_EQ(said({"sh", script, "-n", "2", "--timeout", "1", "sleep", "60"}),
            script + ": the job did not end within 1 s; it is stopped -> 124");
}

TEST_F(Launcher, OfTwoHostsThatCannotBeMadeSkipsThem) {
  for (const char* name : {"unshare", "ip", "tc", "nsenter", "setpriv"})
    script(name, "echo unshare failed: Operation not permitted >&2; exit 1\n");
  const std::string launcher = LOCKSTEP_SOURCE_DIR "/launch/two_hosts.sh", path = std::getenv("PATH");
  setenv("PATH", (folder_.string() + ":" + path).c_str(), 1);
  const std::string refused = said({"sh", launcher, "true"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(refused.ends_with(" no namespaces of its own: unshare failed: Operation not permitted -> 77")) << refused;
  EXPECT_EQ(said({"sh", launcher, "--rtae", "1gbit", "true"}),
            "two_hosts: unknown option '--rtae'. Known: --rate. -> 2");
}

using SettingUp = TestFolder;

TEST_F(SettingUp, ToolsThatAreTooOldAreNamedBeforeAnythingIsInstalled) {
  script("cmake", "echo cmake version 3.16.3\n");
  script("gcc8", "[ $1 = --version ] && echo g++ 8.5.0\n");
  const std::string setup = LOCKSTEP_SOURCE_DIR "/tools/setup.sh", path = std::getenv("PATH");
  setenv("PATH", (folder_.string() + ":" + path).c_str(), 1);
  EXPECT_TRUE(said({"sh", setup}).starts_with("cmake is too old: cmake version 3.16.3. 3.22 or newer is needed"));
  setenv("CXX", "gcc8", 1);
  EXPECT_TRUE(said({"sh", setup}).starts_with("gcc8 is too old: g++ 8.5.0. GCC 11 or newer is needed"));
  unsetenv("CXX");
  setenv("PATH", path.c_str(), 1);
}

TEST(Launch, AProfilerRunsEachRank) {
  const std::string script = LOCKSTEP_SOURCE_DIR "/launch/profile_rank.sh";
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  EXPECT_EQ(said({"sh", script, "echo", "out/x", "prog", "-a"}),
            "profile --trace=cuda,nvtx,osrt --force-overwrite=true --output=out/x.rank3 prog -a -> 0");
  unsetenv("OMPI_COMM_WORLD_RANK");
}

}  // namespace
}  // namespace lockstep::tools

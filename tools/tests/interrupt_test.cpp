// Ctrl-C: the terminal sends SIGINT to the whole group of processes, ./lab and its children.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "common/support/text/run_program.hpp"
#include "tools/course/judge.hpp"
#include "tools/course/process.hpp"
#include "tools/grade/grade_run.hpp"
#include "tools/tests/small_course.hpp"

namespace lockstep::tools {
namespace {

/// Waits until `what`, for half a minute at most.
bool becomes_true(const std::function<bool()>& what) {
  for (int tries = 0; tries < 1500 && !what(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return what();
}

/// The processes of a group that have not ended, from /proc/PID/stat: "12 (sh) S parent group …".
int running_in(pid_t group) {
  int count = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc", none)) {
    const std::string stat = read_text(entry.path() / "stat");
    char state = 0;
    int parent = 0, its = 0;
    if (const auto end = stat.rfind(')'); end != stat.npos)
      std::sscanf(stat.c_str() + end + 1, " %c %d %d", &state, &parent, &its);
    count += its == group && state != 'Z';
  }
  return count;
}

class Interrupt : public SmallCourse {
 protected:
  fs::path started() const { return paths_.source / "started"; }
  fs::path said() const { return paths_.source / "said"; }

  /// A program that says when it is started, and waits; `more` before that. Between two short sleeps the shell looks at
  /// a signal that came when it was just starting one, which would not hear it.
  void write_program(const fs::path& program, const std::string& more) const {
    script(program, more + "\necho started >> " + started().string() + "\nwhile :; do sleep 0.1; done\n");
  }

  /// Starts `command` as a shell at a terminal does, interrupts it once the program is started, and returns its exit
  /// code: 128 + signal where it was killed. Of its group no process is left.
  int interrupted(const std::function<void()>& command) const {
    const pid_t group = fork();
    if (group == 0) {
      setpgid(0, 0);
      signal(SIGINT, SIG_DFL);  // a test before may have left it ignored
      if (!std::freopen(said().c_str(), "w", stderr)) _exit(99);
      const int code = run_program("", [&] { return command(), 0; });
      std::fflush(stderr);
      _exit(code);
    }
    setpgid(group, group);
    EXPECT_TRUE(becomes_true([&] { return fs::exists(started()); }));
    kill(-group, SIGINT);
    int status = 0;
    if (!becomes_true([&] { return waitpid(group, &status, WNOHANG) != 0; })) {
      ADD_FAILURE() << "it is still running: " << read_text(started());
      kill(-group, SIGKILL);
      waitpid(group, &status, 0);
    }
    EXPECT_TRUE(becomes_true([&] { return running_in(group) == 0; })) << "it left a process";
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void run_tests_of(const std::string& program) {
    EXPECT_EQ(interrupted([&] { run_tests(paths_, paths_.program(program), {"1.1", "1.2"}, {}); }), 2);
    EXPECT_EQ(read_text(said()), "interrupted: these tests did not finish.\n");
    EXPECT_EQ(read_text(started()), "started\n") << "what was stopped was run again";
  }
};

const char* const kRunning = R"(echo '{"verdicts": [{"id": "1.1", "verdict": "RUNNING", "message": "", "test": "T.x", )"
                             R"("passed": 0, "failed": 0, "seconds": 0}]}' > "$3")";

TEST_F(Interrupt, EndsTheTestsAndThereIsNoVerdict) {
  write_program(paths_.program("tests"), kRunning);
  run_tests_of("tests");
}

TEST_F(Interrupt, IsHeardFromALauncherThatEndsItsProcessesItself) {
  write_program(paths_.program("tests"), std::string("trap 'exit 130' INT\n") + kRunning);
  run_tests_of("tests");
}

TEST_F(Interrupt, OfABuildIsNotACompilersError) {
  write_program(paths_.source / "bin" / "cmake", "");
  const std::string path = (paths_.source / "bin").string() + ":" + std::getenv("PATH");
  EXPECT_EQ(interrupted([&] {
              setenv("PATH", path.c_str(), 1);
              build_targets(paths_, {"mine.1.1_sim"}, "1.1");
            }),
            2);
  EXPECT_EQ(read_text(said()), "interrupted: building 1.1 did not finish.\n");
}

TEST_F(Interrupt, OfWhatIsGradedLeavesNoFolderAndNoProcess) {
  const fs::path program = paths_.source / "waits", its_folder = paths_.source / "its_folder";
  write_program(program, "echo $$ > " + its_folder.string() + ".process");
  EXPECT_EQ(interrupted([&] {
              const Interruptible interruptible;
              const Scratch folder;
              write_text(its_folder, folder.path().string());
              run_confined({.arguments = {program.string()}, .folder = folder.path(), .rules = Rules::limits_only});
            }),
            2);
  EXPECT_EQ(read_text(said()), "interrupted: this submission is not graded.\n");
  EXPECT_FALSE(fs::exists(read_text(its_folder))) << read_text(its_folder);
  const int process = std::atoi(read_text(its_folder.string() + ".process").c_str());
  ASSERT_GT(process, 1);
  EXPECT_TRUE(becomes_true([&] { return kill(process, 0) != 0; })) << process;
  kill(-process, SIGKILL);  // what is left of it
}

TEST(Command, ItsSilenceIsTold) {
  int silent = 0;
  std::string said;
  const Ended ended = run_command({.arguments = {"sh", "-c", "echo begun; sleep 0.5"},
                                   .folder = {},
                                   .on_line = [&](std::string_view line) { said += line; },
                                   .on_silence = [&] { ++silent; }});
  EXPECT_TRUE(ended.ok());
  EXPECT_EQ(said, "begun");
  EXPECT_GT(silent, 0);
}

TEST_F(Interrupt, EndsTheWaitForALock) {
  const FolderLock held(paths_.source / "locked", "testing");
  EXPECT_EQ(interrupted([&] {
              const Interruptible interruptible;
              FolderLock(paths_.source / "locked", "grading ada", [&](std::string_view) { write_text(started(), ""); });
            }),
            2);
  EXPECT_EQ(read_text(said()), "interrupted: grading ada did not begin.\n");
}

}  // namespace
}  // namespace lockstep::tools

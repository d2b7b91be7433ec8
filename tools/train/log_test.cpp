// Tests the output of ./lab train on a terminal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <sstream>

#include "common/support/json/row_fields.hpp"
#include "common/support/text/columns.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

/// Returns the output of a run on a terminal.
std::string on_a_terminal(const TrainRequest& options, unsigned short columns = 80) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  EXPECT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  std::FILE* out = std::fopen(ptsname(terminal), "w");
  EXPECT_NE(out, nullptr);
  checkpoint::Disk disk;
  try_to_train(options, disk, out);
  std::string text(1 << 14, '\0');
  const ssize_t got = ::read(terminal, text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  std::fclose(out);
  close(terminal);
  return text;
}

TEST(Log, OnATerminalALineOfProgressIsOneRow) {
  TrainRequest options = small_run();
  options.ranks = 2;
  options.steps = 3;
  const std::string text = on_a_terminal(options), begin = "\r\033[K";
  int rows = 0;
  for (auto at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
    const std::string row = text.substr(at + begin.size(), text.find('\r', at + 1) - at - begin.size());
    if (!row.starts_with("step ") || row.find("loss") == row.npos) continue;
    EXPECT_LT(columns_of(row), 80u) << row;
    rows += row.ends_with(" left");
  }
  EXPECT_EQ(rows, 3) << text;
}

TEST(Log, OnANarrowTerminalWhatALabelSaysIsContinuedBelowIt) {
  TrainRequest options = small_run();
  options.ranks = 2;
  std::istringstream text(on_a_terminal(options, 60));
  int continued = 0;
  for (std::string line; std::getline(text, line);) {
    const std::string row = line.substr(line.rfind('\r', line.size() - 2) + 1);  // after an earlier state of the row
    if (row.starts_with("sample")) break;
    EXPECT_LE(columns_of(row), 66u) << row;  // with "\033[K" and the terminal's "\r"
    continued += row.starts_with(std::string(10, ' '));
  }
  EXPECT_GT(continued, 2);
}

/// A run that was stopped before its first step had ended: what it would have sent is known.
TEST(Log, ARunWithoutAStepHasItsPrediction) {
  TrainRequest options = small_run();
  for (const char* model : {"tiny", "tiny-moe"}) {
    options.model = model;
    options.ranks = 2;
    const TrainPlan plan = make_plan(options, 0);
    Outcome outcome;
    outcome.ledgers.resize(2);
    const Row row = TrainLog(plan, nullptr).result_row(outcome);
    EXPECT_GT(number(row, "predicted_bytes_sent_per_step"), 1000) << model;
  }
}

struct EmulatedRun {
  std::string text;  // the summary
  Row row;
};

/// A run whose steps took these seconds, a log line each.
EmulatedRun timed_run(const std::vector<double>& steps, bool emulated = true) {
  TrainPlan plan = make_plan(small_run(), 0);
  plan.run.emulate = emulated;
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  TrainLog log(plan, out);
  double now = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    StepRecord record;
    record.step = static_cast<int>(i) + 1;
    log.steps({record}, {}, now += steps[i]);
  }
  Outcome outcome;
  outcome.ledgers.resize(1);
  outcome.values = {{0, 0}};
  log.summary(outcome);
  std::fclose(out);
  EmulatedRun result{text, log.result_row(outcome)};
  std::free(text);
  return result;
}

TEST(Log, EmulatedStepsSayWhetherTheComputerWasQuiet) {
  const EmulatedRun quiet = timed_run({9, 1.00, 1.04, 1.01, 1.03}), noisy = timed_run({1, 1.0, 1.5, 1.1, 1.2});
  EXPECT_EQ(quiet.text.find("not quiet"), std::string::npos) << quiet.text;
  EXPECT_NEAR(std::get<double>(*find(quiet.row, "spread")), 0.04, 1e-9);
  EXPECT_TRUE(std::get<bool>(*find(quiet.row, "quiet")));
  EXPECT_NE(noisy.text.find("not quiet: emulated steps"), std::string::npos) << noisy.text;
  EXPECT_NE(noisy.text.find("95% interval 50% wide"), std::string::npos) << noisy.text;
  EXPECT_FALSE(std::get<bool>(*find(noisy.row, "quiet")));
  for (const EmulatedRun& unknown : {timed_run({1, 1.0, 1.5, 1.1, 1.2}, false), timed_run({1})}) {
    EXPECT_EQ(unknown.text.find("not quiet"), std::string::npos) << unknown.text;
    EXPECT_EQ(find(unknown.row, "quiet"), nullptr) << "not emulated, or a single time";
  }
}

}  // namespace
}  // namespace lockstep::train

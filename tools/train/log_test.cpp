// What ./lab train prints on a terminal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/support/text/columns.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

/// What a run prints on a terminal of 80 columns.
std::string on_a_terminal(const TrainRequest& options) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  EXPECT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
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

}  // namespace
}  // namespace lockstep::train

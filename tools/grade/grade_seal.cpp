// The seal on a graded program's verdict, linked into graded.ID_sim only. Before any other code of the program, a
// student's static initialisers included, it takes a secret from descriptor 3, which nobody can read again. When all
// tests are over it writes the secret and their counts to descriptor 4. ./lab grade gives no points without this line:
// not for text on standard output, not for a file, not for an exit code.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace {

constexpr int kSecret = 3, kSeal = 4, kLength = 32;

struct Seal {
  char secret[kLength + 1];
  int to;
};
Seal seal;

void take_secret(int, char**, char**) {
  if (read(kSecret, seal.secret, kLength) != kLength) seal.secret[0] = '\0';
  close(kSecret);
  seal.to = fcntl(kSeal, F_DUPFD_CLOEXEC, 5);
  close(kSeal);
}

// What the loader calls first (System V ABI, "Initialization and Termination Functions").
[[gnu::section(".preinit_array"), gnu::used]] void (*const kFirst)(int, char**, char**) = take_secret;

class SealListener : public ::testing::EmptyTestEventListener {
  void OnTestProgramEnd(const ::testing::UnitTest& tests) override {
    char line[128];
    int length = std::snprintf(line, sizeof line, "%s passed %d failed %d skipped %d\n", seal.secret,
                               tests.successful_test_count(), tests.failed_test_count(), tests.skipped_test_count());
    if (write(seal.to, line, static_cast<std::size_t>(length)) != length) _exit(3);
  }
};

const bool kListens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SealListener);
  return true;
}();

}  // namespace

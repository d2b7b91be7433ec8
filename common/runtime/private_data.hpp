// Global variables that are private to each rank although ranks share a process. If a program is linked with an object
// whose writable data lies in the section lockstep_private and whose static initialisers lie in lockstep_private_init,
// that data is swapped whenever another rank resumes. `static int calls` then counts a rank's own calls, as it does
// where ranks are processes. So do errno, and how std::cout, std::cerr and std::clog print. Programs without these
// sections pay for one comparison. ./lab grade makes such objects from answers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

/// The program's private bytes: the data of the rank that runs now.
std::span<char> private_bytes();
/// Saves these bytes as they are before any initialiser has run, then runs the initialisers. Call once, before main.
void start_private_data();

/// The private data of all ranks of one run, and of its caller.
class PrivateData {
 public:
  PrivateData();
  ~PrivateData();
  PrivateData(const PrivateData&) = delete;

  /// Switches to the data of this rank; on its first call, the data is fresh and initialised.
  void enter(int rank) {
    if (any_ && rank != current_) exchange(rank);
  }
  /// Switches back to the data of the run's caller.
  void leave() { enter(kCaller); }

 private:
  static constexpr int kCaller = -1;
  void exchange(int rank);

  bool any_;
  int current_ = kCaller;
  struct Kept;
  std::vector<std::unique_ptr<Kept>> kept_;  // the caller's first, then by rank; null: rank not started yet
};

}  // namespace lockstep

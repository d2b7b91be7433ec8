// Variables that each rank has for itself although ranks share a process. A program that is linked with an object whose
// writable data lies in the section lockstep_private, and whose static initialisers lie in lockstep_private_init, has
// that data exchanged whenever another rank goes on: `static int calls` then counts a rank's own calls, as it does
// where ranks are processes. Programs without these sections pay one comparison. ./lab grade makes such objects of
// answers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep {

/// The program's private bytes, wherever they belong just now.
std::span<char> private_bytes();
/// Keeps these bytes as they are before any initialiser has run, then runs the initialisers. Once, before main.
void start_private_data();

/// The private data of the ranks of one run, and of its caller.
class PrivateData {
 public:
  PrivateData() : any_(!private_bytes().empty()) {}
  ~PrivateData() { leave(); }
  PrivateData(const PrivateData&) = delete;

  /// What follows is done by this rank. On its first time its data is new, and initialised.
  void enter(int rank) {
    if (any_ && rank != current_) exchange(rank);
  }
  /// What follows is done by the caller of the run.
  void leave() { enter(kCaller); }

 private:
  static constexpr int kCaller = -1;
  void exchange(int rank);

  bool any_;
  int current_ = kCaller;
  std::vector<std::vector<char>> kept_;  // the caller's first, then by rank; empty: not begun
};

}  // namespace lockstep

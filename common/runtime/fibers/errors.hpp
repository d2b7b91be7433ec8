// What goes wrong in the same words on every backend whose ranks share a process.
#pragma once

#include <cstring>
#include <string>

#include "common/rank.hpp"
#include "common/runtime/errors.hpp"

namespace lockstep {

/// One half of a message, for comparing it with the other.
struct Half {
  int rank = 0;  // in the world
  std::size_t elements = 0;
  DType dtype = DType::f32;
  Location where{};
  const char* region = nullptr;  // the collective it belongs to, if any
};
/// Two ends that are in different collectives do not belong together.
inline bool regions_agree(const char* a, const char* b) { return !a || !b || a == b || std::strcmp(a, b) == 0; }
/// The halves differ in size, type or collective. Throws Error(mismatch) naming both sides, each in its regions
/// (Recorder::regions_of), and which_way the message goes.
[[noreturn]] void mismatch(const Half& send, const std::string& send_regions, const Half& receive,
                           const std::string& receive_regions, const std::string& way);

/// A verb was called on the Rank of queue `called`, which is not the one that is running. `running` is the queue that
/// is; empty: it belongs to another rank, or none runs. Throws Error(usage).
[[noreturn]] void wrong_queue(bool main_called, const std::string& called, const std::string& running, Location where);

/// How a run failed.
struct Failure {
  Verdict verdict = Verdict::pass;
  std::string message;
  int rank = -1;
};
/// Of the exception that is being handled, thrown by `rank`; `queue` and `closure` where it came from a closure.
Failure current_failure(int rank, const std::string& queue, const Location* closure);
/// Of slices that were kept outside the program.
Failure outliving_slices(int rank, std::uint64_t blocks);

}  // namespace lockstep

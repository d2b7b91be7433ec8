// Error messages shared by all backends whose ranks share a process.
#pragma once

#include <cstring>
#include <string>

#include "common/rank.hpp"
#include "common/runtime/errors.hpp"
#include "common/runtime/last_call.hpp"

namespace lockstep {

/// One half of a message, to be compared with the other half.
struct Half {
  int rank = 0;  // world rank
  std::size_t elements = 0;
  DType dtype = DType::f32;
  Location where{};
  const char* region = nullptr;  // the collective it belongs to, if any
};
/// False if the two ends are in different collectives, and so do not belong together.
inline bool regions_agree(const char* a, const char* b) { return !a || !b || a == b || std::strcmp(a, b) == 0; }
/// Reports halves that differ in size, type or collective. Throws Error(mismatch) that names both sides, each with its
/// regions (Recorder::regions_of), and which_way the message goes.
[[noreturn]] void mismatch(const Half& send, const std::string& send_regions, const Half& receive,
                           const std::string& receive_regions, const std::string& way);

/// Reports a verb called on the Rank of queue `called` while another queue runs. `running` is that queue, or empty if
/// it belongs to another rank or none runs. Throws Error(usage).
[[noreturn]] void wrong_queue(bool main_called, const std::string& called, const std::string& running, Location where);

/// The failure of a run.
struct Failure {
  Verdict verdict = Verdict::pass;
  std::string message;
  int rank = -1;
};
/// Failure from the exception being handled, thrown after `call`, in the closure `closure` of `queue` unless null.
Failure current_failure(const LastCall& call, const std::string& queue, const Location* closure);
/// Failure of a rank whose program kept slices after its end.
Failure outliving_slices(int rank, std::uint64_t blocks);

}  // namespace lockstep

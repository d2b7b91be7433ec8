// What goes wrong in the same words on every backend whose ranks share a process.
#pragma once

#include <cstring>
#include <string>

#include "common/rank.hpp"

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
/// The halves differ in size, type or collective. Throws Error(mismatch) naming both sides.
[[noreturn]] void mismatch(const Half& send, const Half& receive);

/// A verb was called on the Rank of queue `called`, which is not the one that is running. `running` is the queue that
/// is; empty: it belongs to another rank, or none runs. Throws Error(usage).
[[noreturn]] void wrong_queue(bool main_called, const std::string& called, const std::string& running, Location where);

/// Texts of a few more USAGE errors.
std::string not_in_group(int world_rank);
std::string waited_on_wrong_queue(const std::string& started, const std::string& waited);
std::string scratch_left(std::uint64_t bytes);
std::string closure_not_waited_for(const std::string& queue);
inline constexpr const char* kTicketOfAnotherRank = "this ticket is of another rank";
inline constexpr const char* kClosureTicketOnMain = "a closure's ticket is waited for on main";
inline constexpr const char* kTransfersNotWaitedFor =
    "the program ends, and nobody waited for the transfers started here";

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

/// Thrown through the fibers of other ranks when one has failed. Not a std::exception: nobody's handler takes it.
struct Unwind {};

}  // namespace lockstep

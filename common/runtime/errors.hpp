// Messages about errors in a rank's own program, the same on every backend. For the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/slice.hpp"

namespace lockstep {

// USAGE errors.
std::string main_inside_closure(std::string_view queue);    ///< main's Rank was used in a closure on `queue`
std::string queue_outside_closure(std::string_view queue);  ///< the Rank of `queue` was used outside its closures
std::string not_in_group(int world_rank);
std::string not_on_main(std::string_view verb);
std::string waited_on_wrong_queue(std::string_view started, std::string_view waited);
std::string scratch_left(std::uint64_t bytes);
std::string closure_not_waited_for(std::string_view queue);
std::string slices_outlive_program(std::uint64_t allocations);
/// ": sizes are unsigned, …" if a number of elements is so large that a subtraction must have made it, or "".
std::string below_zero(std::uint64_t elements);
inline constexpr const char* kTicketOfAnotherRank = "this ticket belongs to another rank";
inline constexpr const char* kClosureTicketOnMain = "a closure's ticket can only be waited for on main";
inline constexpr const char* kTransfersNotWaitedFor =
    "the program ended without waiting for the transfers started here: wait for the ticket that start returned";

// MISMATCH errors.
/// " in region "all_reduce"", or "" if the name is empty.
std::string in_region(std::string_view name);
/// ", batch 3 of a group of 4 in region "all_reduce"", of a wait; a group of 0 is the world, and `region` may be null.
std::string in_batch(std::uint64_t number, int group, std::size_t members, const char* region);
/// "rank 1 sends 3 fp32 at ring.cpp:31 (all_gather) in region "all_reduce""; `regions` may be empty.
std::string message_end(int rank, const char* verb, std::uint64_t elements, std::string_view dtype,
                        std::string_view where, std::string_view regions);
/// `what` is kSizes, "the element type" or "the collective".
inline constexpr const char* kSizes = "the size";
std::string ends_differ(const char* what, const std::string& sent, const std::string& received);
/// Hint for sizes that differ between neighbours in a group of `ranks`: which way the message goes. "" for ranks that
/// are not neighbours, and for groups of two, where each rank is the other's neighbour on both sides.
std::string which_way(int from, int to, int ranks);

/// The error where a rank's memory has no room: names the size, the category and the line.
Error out_of_memory(std::size_t bytes, Category category, Location where);

/// Thrown through the fibers or threads of a failed run. Not a std::exception, so the program's handlers do not catch
/// it.
struct Unwind {};

/// The exception being handled.
struct Caught {
  Verdict verdict = Verdict::fail;
  std::string what;
};
/// Another exception than an Error is described by its type and its text, which name no place. So `last_call` says
/// where its rank last called the runtime; line 0: nowhere.
Caught caught(Location last_call);
/// The thrower: "rank 1, in the closure run at … on queue "comm": ", or "rank 1: " without a closure.
std::string thrower(int rank, std::string_view queue, const Location* closure);

}  // namespace lockstep

#include "common/runtime/errors.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <limits>
#include <new>
#include <typeinfo>

#include "common/support/text/plain_name.hpp"

namespace lockstep {

std::string main_inside_closure(std::string_view queue) {
  return fmt::format(
      "main's Rank was used inside a closure on queue \"{}\": use the Rank that the closure gets as its argument",
      queue);
}

std::string queue_outside_closure(std::string_view queue) {
  return fmt::format("the Rank of queue \"{}\" was used outside its closure: pass the work to run(queue, …)", queue);
}

std::string not_in_group(int world_rank) {
  return fmt::format("rank {} is not in this group: it passed a negative colour to split", world_rank);
}

std::string not_on_main(std::string_view verb) {
  return fmt::format("{} is a set-up call: make it on main, outside of closures", verb);
}

std::string waited_on_wrong_queue(std::string_view started, std::string_view waited) {
  return fmt::format(
      "a transfer started on queue \"{}\" is waited for on queue \"{}\": wait on its own queue, and let "
      "main wait for the closure",
      started, waited);
}

std::string scratch_left(std::uint64_t bytes) {
  return fmt::format(
      "the closure ended with {} bytes of scratch still allocated: release them in the closure, or allocate them on "
      "main",
      bytes);
}

std::string closure_not_waited_for(std::string_view queue) {
  return fmt::format(
      "the program ended without waiting for the closure run here on queue \"{}\": wait for the ticket that run "
      "returned",
      queue);
}

std::string slices_outlive_program(std::uint64_t allocations) {
  return fmt::format("USAGE: {} allocation{} outlive{} the program: a Slice was kept outside it", allocations,
                     allocations == 1 ? "" : "s", allocations == 1 ? "s" : "");
}

std::string below_zero(std::uint64_t elements) {
  if (elements < std::uint64_t{1} << 60) return "";
  return fmt::format(": sizes are unsigned, so 0 − 1 is {}", std::numeric_limits<std::uint64_t>::max());
}

std::string in_region(std::string_view name) { return name.empty() ? "" : fmt::format(" in region \"{}\"", name); }

std::string in_batch(std::uint64_t number, int group, std::size_t members, const char* region) {
  return fmt::format(", batch {}{}{}", number, group == 0 ? "" : fmt::format(" of a group of {}", members),
                     in_region(region ? region : ""));
}

std::string message_end(int rank, const char* verb, std::uint64_t elements, std::string_view dtype,
                        std::string_view where, std::string_view regions) {
  return fmt::format("rank {} {} {} {} at {}{}", rank, verb, elements, dtype, where, regions);
}

std::string ends_differ(const char* what, const std::string& sent, const std::string& received) {
  return fmt::format("MISMATCH in {} of a message: {}; {}.", what, sent, received);
}

std::string which_way(int from, int to, int ranks) {
  const bool forward = (from + 1) % ranks == to, backward = (to + 1) % ranks == from;
  const char* parts =
      " Do the two ends mean different parts of the array, or is the receiving slice cut to another chunk's length?";
  if (forward == backward) return parts;
  return fmt::format(
      " It goes from a rank to its {} one. If it should go the other way, next and previous are swapped.{}",
      forward ? "next" : "previous", parts);
}

Error out_of_memory(std::size_t bytes, Category category, Location where) {
  return {Verdict::fail,
          fmt::format("out of memory: {} bytes for {} at {}", bytes, to_string(category), describe(where))};
}

Caught caught(Location last_call) {
  const std::string after = last_call.line() == 0 ? "" : ", after its call at " + describe(last_call);
  const std::string type = plain_name(abi::__cxa_current_exception_type()->name());
  const std::string thrown = fmt::format("an exception of type {} was thrown", type);
  try {
    throw;
  } catch (const Error& error) {
    return {error.verdict(), error.what()};
  } catch (const std::bad_alloc&) {
    return {Verdict::fail, "out of memory" + (after.empty() ? ": does a loop add to a list without end?" : after)};
  } catch (const std::exception& error) {
    return {Verdict::fail, fmt::format("{}: {}{}", thrown, error.what(), after)};
  } catch (...) {
    return {Verdict::fail, thrown + after};
  }
}

std::string thrower(int rank, std::string_view queue, const Location* closure) {
  return closure ? fmt::format("rank {}, in the closure run at {} on queue \"{}\": ", rank, describe(*closure), queue)
                 : fmt::format("rank {}: ", rank);
}

}  // namespace lockstep

#include "common/one_process/complaints.hpp"

#include <fmt/format.h>

namespace lockstep {

void mismatch(const Half& send, const Half& receive) {
  auto side = [](const char* verb, const Half& half) {
    return fmt::format("rank {} {} {} {} at {}{}", half.rank, verb, half.elements, to_string(half.dtype),
                       describe(half.where), half.region ? fmt::format(" in region \"{}\"", half.region) : "");
  };
  throw Error(Verdict::mismatch, fmt::format("MISMATCH in {} of a message: {}; {}.",
                                             !regions_agree(send.region, receive.region) ? "the collective"
                                             : send.elements != receive.elements         ? "the size"
                                                                                         : "the element type",
                                             side("sends", send), side("receives", receive)));
}

void wrong_queue(bool main_called, const std::string& called, const std::string& running, Location where) {
  if (running.empty()) usage_error("a Rank of one rank was used by another: capture nothing but values", where);
  if (main_called)
    usage_error(
        fmt::format("main's Rank was used inside a closure on queue \"{}\": use the Rank that the closure is given",
                    running),
        where);
  usage_error(
      fmt::format("the Rank of queue \"{}\" was used outside its closure: give the work to run(queue, …)", called),
      where);
}

std::string not_in_group(int world_rank) {
  return fmt::format("rank {} is not in this group: its split gave no colour", world_rank);
}

std::string waited_on_wrong_queue(const std::string& started, const std::string& waited) {
  return fmt::format(
      "a transfer started on queue \"{}\" is waited for on queue \"{}\": wait on its own queue, and let "
      "main wait for the closure",
      started, waited);
}

std::string scratch_left(std::uint64_t bytes) {
  return fmt::format("the closure ends with {} bytes of scratch alive: scratch dies inside, main allocates the rest",
                     bytes);
}

std::string closure_not_waited_for(const std::string& queue) {
  return fmt::format("the program ends, and nobody waited for the closure run here on queue \"{}\"", queue);
}

Failure current_failure(int rank, const std::string& queue, const Location* closure) {
  const std::string who =
      closure ? fmt::format("rank {}, in the closure run at {} on queue \"{}\": ", rank, describe(*closure), queue)
              : fmt::format("rank {}: ", rank);
  try {
    throw;
  } catch (const Error& error) {
    return {error.verdict(), who + error.what(), rank};
  } catch (const std::exception& error) {
    return {Verdict::fail, who + error.what(), rank};
  } catch (...) {
    return {Verdict::fail, who + "threw something that is not a std::exception", rank};
  }
}

Failure outliving_slices(int rank, std::uint64_t blocks) {
  return {Verdict::usage,
          fmt::format("rank {}: USAGE: {} allocations outlive the program: a Slice was kept outside it", rank, blocks),
          rank};
}

}  // namespace lockstep

#include "common/runtime/fibers/errors.hpp"

#include <fmt/format.h>

namespace lockstep {

void mismatch(const Half& send, const std::string& send_regions, const Half& receive,
              const std::string& receive_regions, const std::string& way) {
  auto side = [](const char* verb, const Half& half, const std::string& regions) {
    return message_end(half.rank, verb, half.elements, to_string(half.dtype), describe(half.where), regions);
  };
  const char* what = !regions_agree(send.region, receive.region) ? "the collective"
                     : send.elements != receive.elements         ? kSizes
                                                                 : "the element type";
  throw Error(Verdict::mismatch,
              ends_differ(what, side("sends", send, send_regions), side("receives", receive, receive_regions)) +
                  (what == kSizes ? way : ""));
}

void wrong_queue(bool main_called, const std::string& called, const std::string& running, Location where) {
  if (running.empty()) usage_error("this Rank belongs to another rank: closures must capture by value", where);
  usage_error(main_called ? main_inside_closure(running) : queue_outside_closure(called), where);
}

Failure current_failure(const LastCall& call, const std::string& queue, const Location* closure) {
  const Caught error = caught(call.where);
  return {error.verdict, thrower(call.rank, queue, closure) + error.what, call.rank};
}

Failure outliving_slices(int rank, std::uint64_t blocks) {
  return {Verdict::usage, fmt::format("rank {}: {}", rank, slices_outlive_program(blocks)), rank};
}

}  // namespace lockstep

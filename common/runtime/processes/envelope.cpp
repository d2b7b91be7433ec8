#include "common/runtime/processes/envelope.hpp"

#include <algorithm>
#include <cstring>

#include "common/runtime/errors.hpp"
#include "common/runtime/processes/set_up.hpp"

namespace lockstep::processes {

namespace {

std::string side(int rank, const char* verb, const Envelope& envelope) {
  return message_end(rank, verb, envelope.bytes / bytes_of(envelope.dtype), to_string(envelope.dtype), envelope.where,
                     in_region(envelope.region));
}

const char* difference(const Envelope& sent, const TransferBatchCore& batch, const Transfer& receive) {
  if (sent.bytes != receive.slice.bytes()) return kSizes;
  if (sent.dtype != receive.slice.dtype()) return "the element type";
  // A message between a collective and plain code is allowed; between two collectives it is a mistake.
  const bool both = sent.region[0] && batch.region && batch.region[0];
  if (both && std::strncmp(sent.region, batch.region, sizeof sent.region - 1) != 0) return "the collective";
  return nullptr;
}

}  // namespace

Envelope envelope_of(const TransferBatchCore& batch, const Transfer& transfer) {
  Envelope envelope{.bytes = transfer.slice.bytes(), .dtype = transfer.slice.dtype()};
  if (batch.region) copy_text(envelope.region, sizeof envelope.region, batch.region);
  copy_text(envelope.where, sizeof envelope.where, describe(batch.where));
  return envelope;
}

std::string format_sender(int from, const Envelope& sent) { return side(from, "sends", sent); }

std::string mismatch(const std::vector<int>& members, const Envelope& sent, int to, const TransferBatchCore& batch,
                     const Transfer& receive) {
  const char* what = difference(sent, batch, receive);
  if (!what) return "";
  const auto place = std::find(members.begin(), members.end(), to) - members.begin();
  const std::string ends =
      ends_differ(what, side(members[receive.peer], "sends", sent), side(to, "receives", envelope_of(batch, receive)));
  return what == kSizes ? ends + which_way(receive.peer, static_cast<int>(place), static_cast<int>(members.size()))
                        : ends;
}

}  // namespace lockstep::processes

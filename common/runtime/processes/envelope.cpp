#include "common/runtime/processes/envelope.hpp"

#include <cstring>

#include "common/runtime/errors.hpp"
#include "common/runtime/processes/set_up.hpp"

namespace lockstep::processes {

namespace {

std::string side(int rank, const char* verb, const Envelope& envelope) {
  return message_end(rank, verb, envelope.bytes / bytes_of(envelope.dtype), to_string(envelope.dtype), envelope.where,
                     envelope.region);
}

const char* difference(const Envelope& a, const Envelope& b) {
  if (a.bytes != b.bytes) return "the size";
  if (a.dtype != b.dtype) return "the element type";
  // A message between a collective and plain code is fine; between two collectives it is lost.
  if (a.region[0] && b.region[0] && std::strcmp(a.region, b.region) != 0) return "the collective";
  return nullptr;
}

}  // namespace

Envelope envelope_of(const BatchCore& batch, const Transfer& transfer) {
  Envelope envelope{.bytes = transfer.slice.bytes(), .dtype = transfer.slice.dtype()};
  if (batch.region) copy_text(envelope.region, sizeof envelope.region, batch.region);
  copy_text(envelope.where, sizeof envelope.where, describe(batch.where));
  return envelope;
}

std::string in_words(int from, const Envelope& sent) { return side(from, "sends", sent); }

std::string mismatch(int from, const Envelope& sent, int to, const Envelope& received) {
  const char* what = difference(sent, received);
  return what ? ends_differ(what, side(from, "sends", sent), side(to, "receives", received)) : "";
}

}  // namespace lockstep::processes

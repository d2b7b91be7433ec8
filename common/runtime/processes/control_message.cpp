#include "common/runtime/processes/results.hpp"
#include "common/runtime/processes/watch.hpp"

namespace lockstep::processes {

template <class Io>
void fields(Io& io, Of<Row> auto& row) {
  io(row.state, row.peer, row.idle_seconds, row.activity, row.counted, row.begun, row.unfinished, row.words);
}

template <class Io>
void fields(Io& io, Of<ControlMessage> auto& message) {
  io(message.kind, message.from, message.timed_out, message.round, message.failure, message.row);
}

std::string ControlMessage::bytes() const { return to_bytes(*this); }

ControlMessage ControlMessage::parse(const std::string& bytes) {
  ControlMessage message;
  from_bytes(bytes, message);
  return message;
}

}  // namespace lockstep::processes

#include "common/runtime/processes/bytes.hpp"
#include "common/runtime/processes/results.hpp"
#include "common/runtime/processes/watch.hpp"

namespace lockstep::processes {

std::string ControlMessage::bytes() const {
  Writer out;
  out.put(kind);
  out.put(from);
  out.put(timed_out);
  out.put(round);
  out.put(pack(failure));
  out.put(row.state);
  out.put(row.peer);
  out.put(row.idle_seconds);
  out.put(row.activity);
  out.put(row.counted);
  out.each(row.begun, [&](const Begun& begun) { out.put(begun); });
  out.each(row.unfinished, [&](const Unfinished& unfinished) { out.put(unfinished); });
  out.put(row.words);
  return out.bytes;
}

ControlMessage ControlMessage::parse(const std::string& bytes) {
  Reader in(bytes);
  ControlMessage message;
  std::string failure;
  in.get(message.kind);
  in.get(message.from);
  in.get(message.timed_out);
  in.get(message.round);
  in.get(failure);
  message.failure = unpack_failure(failure);
  Row& row = message.row;
  in.get(row.state);
  in.get(row.peer);
  in.get(row.idle_seconds);
  in.get(row.activity);
  in.get(row.counted);
  in.each(row.begun, [&](Begun& begun) { in.get(begun); });
  in.each(row.unfinished, [&](Unfinished& unfinished) { in.get(unfinished); });
  in.get(row.words);
  return message;
}

}  // namespace lockstep::processes

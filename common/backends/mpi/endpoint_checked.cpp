// Messages with headers. Every message goes through this file while options.check_races is set (the default) or links
// are emulated; otherwise endpoint.cpp sends bodies alone. A header lets the receiver compare both ends of its message,
// and carries the times of emulated links. On MPI it has nothing to do with races.
//
// A send's header leaves together with its body. A receive takes the header first, compares, then takes the body. With
// emulated links, a send of up to eager_bytes occupies its ports itself. For a longer one, the receiver does so once
// both halves are posted, and tells the sender when the first byte left.

#include "common/backends/mpi/endpoint.hpp"
#include "common/backends/mpi/status.hpp"
#include "common/runtime/processes/set_up.hpp"

namespace lockstep::mpi {

namespace {
bool settled(MPI_Request& request) {
  if (request == MPI_REQUEST_NULL) return true;
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  return done != 0;
}
}  // namespace

Path Endpoint::path_of(const Transfer& transfer) const {
  const int peer = members()[transfer.peer];
  const bool sends = transfer.kind == Transfer::Kind::send;
  return job_.ports->path(sends ? job_.rank : peer, sends ? peer : job_.rank);
}

void Endpoint::post_checked(TransferBatch& batch) {
  if (batch.messages.size() < batch.transfers.size()) batch.messages.resize(batch.transfers.size());
  for (std::size_t i = 0; i < batch.transfers.size(); ++i) {
    const Transfer& transfer = batch.transfers[i];
    Message& message = batch.messages[i];
    message.body.clear();
    message.complete_at = batch.begin;
    if (transfer.kind == Transfer::Kind::receive) {
      message.state = Message::State::waits_for_header;
      check(MPI_Irecv(&message.header, sizeof(Header), MPI_BYTE, transfer.peer, kHead, comm_, &message.head));
      continue;
    }
    message.header = {processes::envelope_of(batch, transfer), batch.begin};
    message.rendezvous = job_.emulate() && transfer.slice.bytes() > job_.options.machine.eager_bytes;
    message.state = Message::State::waits_for_port;
    if (!job_.emulate()) send_now(transfer, message);
  }
  batch.messages.resize(batch.transfers.size());
}

void Endpoint::send_now(const Transfer& transfer, Message& message) {
  message.state = Message::State::moves;
  check(MPI_Isend(&message.header, sizeof(Header), MPI_BYTE, transfer.peer, kHead, comm_, &message.head));
  if (!transfer.slice.empty())
    post_send(message.body, transfer.slice.data(), transfer.slice.bytes(), transfer.peer, comm_);
  if (message.rendezvous)
    check(MPI_Irecv(&message.acknowledgement, sizeof(Acknowledgement), MPI_BYTE, transfer.peer, kAcknowledge, comm_,
                    &message.acknowledge));
}

bool Endpoint::finished_checked(TransferBatch& batch) {
  bool all = true;
  for (std::size_t i = 0; i < batch.transfers.size(); ++i) {
    Message& message = batch.messages[i];
    if (overtakes(batch, i)) {
      all = false;
      continue;
    }
    for (auto before = Message::State::done; before != message.state && message.state != Message::State::done;) {
      before = message.state;
      step(batch, batch.transfers[i], message);
      if (job_.failed.load(std::memory_order_relaxed)) return false;
    }
    all = all && message.state == Message::State::done;
    batch.end = i == 0 ? message.complete_at : std::max(batch.end, message.complete_at);
  }
  return all;
}

/// True if message `index` must not move yet. Between two ranks messages keep their order, bodies as well as headers,
/// so a message waits while an earlier one to or from the same peer has not begun to move.
bool Endpoint::overtakes(const TransferBatch& batch, std::size_t index) const {
  auto waits = [&](std::size_t i) {
    const Message::State state = batch.messages[i].state;
    return state == Message::State::waits_for_port || state == Message::State::waits_for_header;
  };
  if (!waits(index)) return false;
  const Transfer& transfer = batch.transfers[index];
  for (std::size_t i = 0; i < index; ++i)
    if (batch.transfers[i].peer == transfer.peer && batch.transfers[i].kind == transfer.kind && waits(i)) return true;
  return false;
}

void Endpoint::step(TransferBatch& batch, const Transfer& transfer, Message& message) {
  switch (message.state) {
    case Message::State::waits_for_port: ask_for_port(batch, transfer, message); break;
    case Message::State::waits_for_header:
      if (settled(message.head)) header_arrived(batch, transfer, message);
      break;
    case Message::State::moves:
      if (moved(transfer, message)) message.state = Message::State::timed;
      break;
    case Message::State::timed:
      if (!job_.emulate() || message.complete_at <= job_.clock.now()) message.state = Message::State::done;
      break;
    case Message::State::done: break;
  }
}

void Endpoint::header_arrived(TransferBatch& batch, const Transfer& transfer, Message& message) {
  if (!header_matches(batch, transfer, message)) return;
  if (!transfer.slice.empty())
    post_receive(message.body, transfer.slice.data(), transfer.slice.bytes(), transfer.peer, comm_);
  message.state = Message::State::moves;
  if (!job_.emulate()) return;
  message.rendezvous = message.header.granted < 0;
  if (message.rendezvous) {
    message.state = Message::State::waits_for_port;
    return;
  }
  const Path path = path_of(transfer);
  const double arrived = message.header.granted + path.beta * static_cast<double>(message.header.bytes) + path.alpha;
  message.complete_at = std::max(batch.begin, arrived);  // eager: it may have arrived before its receive
}

void Endpoint::ask_for_port(TransferBatch& batch, const Transfer& transfer, Message& message) {
  if (transfer.kind == Transfer::Kind::send && message.rendezvous) return send_now(transfer, message);
  const Path path = path_of(transfer);
  const auto bytes = static_cast<double>(transfer.slice.bytes());
  const double ready = std::max(message.header.ready, batch.begin);
  const std::optional<double> granted = job_.ports->grant(path, bytes, ready, job_.clock.now());
  if (!granted) return;
  message.complete_at = *granted + path.beta * bytes;
  if (transfer.kind == Transfer::Kind::send) {
    message.header.granted = *granted;
    send_now(transfer, message);
    return;
  }
  message.complete_at += path.alpha;
  message.acknowledgement.granted = *granted;
  check(MPI_Isend(&message.acknowledgement, sizeof(Acknowledgement), MPI_BYTE, transfer.peer, kAcknowledge, comm_,
                  &message.acknowledge));
  message.state = Message::State::moves;
}

bool Endpoint::moved(const Transfer& transfer, Message& message) {
  bool all = settled(message.head);
  for (MPI_Request& request : message.body) all = settled(request) && all;
  if (!message.rendezvous) return all;
  all = settled(message.acknowledge) && all;
  if (all && transfer.kind == Transfer::Kind::send)
    message.complete_at =
        message.acknowledgement.granted + path_of(transfer).beta * static_cast<double>(transfer.slice.bytes());
  return all;
}

bool Endpoint::header_matches(const TransferBatch& batch, const Transfer& transfer, const Message& message) {
  const std::string text = processes::mismatch(members(), message.header, job_.rank, batch, transfer);
  if (!text.empty()) job_.fail(Verdict::mismatch, text);
  return text.empty();
}

}  // namespace lockstep::mpi

#include "common/backends/mpi/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

void post_send(std::vector<MPI_Request>& requests, const void* data, std::size_t bytes, int peer, MPI_Comm comm) {
  for (std::size_t part = 0; part < parts_of(bytes); ++part) {
    const char* from = static_cast<const char*>(data) + part * kPartBytes;
    requests.push_back(MPI_REQUEST_NULL);
    check(MPI_Isend(from, static_cast<int>(part_bytes(bytes, part)), MPI_BYTE, peer, kBody, comm, &requests.back()));
  }
}

void post_receive(std::vector<MPI_Request>& requests, void* data, std::size_t bytes, int peer, MPI_Comm comm) {
  for (std::size_t part = 0; part < parts_of(bytes); ++part) {
    char* to = static_cast<char*>(data) + part * kPartBytes;
    requests.push_back(MPI_REQUEST_NULL);
    check(MPI_Irecv(to, static_cast<int>(part_bytes(bytes, part)), MPI_BYTE, peer, kBody, comm, &requests.back()));
  }
}

Endpoint::Endpoint(Job& job, MPI_Comm comm, int group, int queue, const std::string& queue_name,
                   std::vector<int> members)
    : EndpointCore(group, queue, queue_name, std::move(members)), job_(job), comm_(comm) {}

std::uint64_t Endpoint::start(std::span<const Transfer> transfers, Location where, const char* region, double issued) {
  if (spare_.empty()) spare_.push_back(std::make_unique<TransferBatch>());
  TransferBatch& batch = add(std::move(spare_.back()), transfers, where, region);
  spare_.pop_back();
  batch.issued = issued;
  job_.outstanding.fetch_add(1, std::memory_order_relaxed);
  if (batch.number == completed_ + 1) post(batch, false);
  return batch.number;
}

bool Endpoint::advance() {
  while (!idle()) {
    TransferBatch& batch = running();
    if (posted_ == completed_) post(batch, true);
    if (job_.failed.load(std::memory_order_relaxed) || !finished(batch)) return false;
    complete(batch);
  }
  return true;
}

void Endpoint::post(TransferBatch& batch, bool waited_for_its_turn) {
  posted_ = batch.number;
  batch.begin = std::max(batch.issued, job_.emulate() ? last_end_ : 0);
  if (!job_.emulate() && waited_for_its_turn) batch.begin = job_.clock.now();
  job_.checked() ? post_checked(batch) : post_plain(batch);
}

void Endpoint::complete(TransferBatch& batch) {
  const std::uint64_t now = monotonic_ns();
  if (!job_.emulate()) batch.end = job_.clock.at(now);
  completed_ = batch.number;
  last_end_ = batch.end;
  job_.outstanding.fetch_sub(1, std::memory_order_relaxed);
  job_.note_activity(now);
  job_.record([&](Recorder& recorder) {
    recorder.transferred(queue(), group(), batch.begin, batch.end, batch.transfers, batch.where, batch.region);
  });
}

bool Endpoint::finished(TransferBatch& batch) {
  return job_.checked() ? finished_checked(batch) : finished_plain(batch);
}

void Endpoint::post_plain(TransferBatch& batch) {
  batch.requests.clear();
  for (const Transfer& transfer : batch.transfers)
    if (transfer.kind == Transfer::Kind::receive)
      post_receive(batch.requests, transfer.slice.data(), transfer.slice.bytes(), transfer.peer, comm_);
  for (const Transfer& transfer : batch.transfers)
    if (transfer.kind == Transfer::Kind::send)
      post_send(batch.requests, transfer.slice.data(), transfer.slice.bytes(), transfer.peer, comm_);
}

bool Endpoint::finished_plain(TransferBatch& batch) {
  statuses_.resize(std::max(statuses_.size(), batch.requests.size()));
  int done = 0;
  const int status =
      MPI_Testall(static_cast<int>(batch.requests.size()), batch.requests.data(), &done, statuses_.data());
  if (status != MPI_SUCCESS) {
    job_.fail(Verdict::mismatch,
              fmt::format("MISMATCH: rank {} at {}: a message that arrived is longer than the slice that receives it "
                          "(run with checks on to see both sides): {}",
                          job_.rank, describe(batch.where), words(status)));
    return false;
  }
  if (!done) return false;
  std::size_t i = 0;
  for (const Transfer& transfer : batch.transfers) {
    if (transfer.kind != Transfer::Kind::receive) continue;
    std::size_t arrived = 0;
    for (std::size_t part = 0; part < parts_of(transfer.slice.bytes()); ++part)
      arrived += bytes_received(statuses_[i++]);
    if (arrived == transfer.slice.bytes()) continue;
    job_.fail(Verdict::mismatch,
              fmt::format("MISMATCH: rank {} receives {} bytes from rank {} at {}, which sent {}", job_.rank,
                          transfer.slice.bytes(), members()[transfer.peer], describe(batch.where), arrived));
    return false;
  }
  return true;
}

void Endpoint::release(std::uint64_t number) {
  while (released() < number) {
    std::unique_ptr<TransferBatch> batch = take_oldest();
    batch->transfers.clear();
    spare_.push_back(std::move(batch));
  }
}

void Endpoint::close() {
  release(started());
  MPI_Comm_free(&comm_);
}

double Endpoint::earliest_end() const {
  if (!job_.emulate() || idle()) return 0;
  double end = 0;
  for (const Message& message : running().messages)
    if (message.state == Message::State::timed || message.state == Message::State::moves)
      end = std::max(end, message.complete_at);
  return end;
}

bool Endpoint::transfer_done(TransferBatch& batch, std::size_t index) {
  if (job_.checked()) return batch.messages[index].state == Message::State::done;
  std::size_t request = 0;  // receives come first
  const bool sends = batch.transfers[index].kind == Transfer::Kind::send;
  for (std::size_t i = 0; i < batch.transfers.size(); ++i) {
    const bool other_sends = batch.transfers[i].kind == Transfer::Kind::send;
    if (other_sends == sends ? i < index : sends) request += parts_of(batch.transfers[i].slice.bytes());
  }
  for (std::size_t part = 0; part < parts_of(batch.transfers[index].slice.bytes()); ++part) {
    int done = 0;
    MPI_Request_get_status(batch.requests[request + part], &done, MPI_STATUS_IGNORE);
    if (!done) return false;
  }
  return true;
}

processes::Outstanding Endpoint::outstanding() {
  processes::Outstanding result{.number = completed_ + 1};
  if (idle() || posted_ == completed_) return result;
  TransferBatch& batch = running();
  result.region = batch.region;
  for (std::size_t i = 0; i < batch.transfers.size(); ++i) {
    const Transfer& transfer = batch.transfers[i];
    if (!transfer_done(batch, i)) result.add(transfer.kind, transfer.slice.bytes(), members()[transfer.peer]);
  }
  return result;
}

/// True if the transfer ends when its modelled time has passed, whatever other ranks do.
bool Endpoint::ends_by_itself(const TransferBatch& batch, std::size_t index) const {
  if (!job_.emulate()) return false;
  const Message::State state = batch.messages[index].state;
  return state == Message::State::waits_for_port || state == Message::State::timed;
}

bool Endpoint::count_transfers(processes::Row& row) {
  using Kind = processes::Unfinished::Kind;
  std::vector<processes::Begun> begun(members().size());
  for (std::size_t member = 0; member < members().size(); ++member)
    begun[member] = {id(), members()[member], traffic()[member].messages_sent, traffic()[member].messages_received};
  auto count_of = [&](const Transfer& transfer) -> std::uint64_t& {
    processes::Begun& of = begun[transfer.peer];
    return transfer.kind == Transfer::Kind::send ? of.sends : of.receives;
  };
  for (std::uint64_t number = posted_ + 1; number <= started(); ++number)  // not posted yet
    for (const Transfer& transfer : numbered(number).transfers) --count_of(transfer);
  bool waits = idle();
  const auto first = static_cast<std::ptrdiff_t>(row.unfinished.size());
  if (posted_ > completed_) {
    TransferBatch& batch = running();
    std::vector<processes::Begun> number = begun;
    for (std::size_t i = batch.transfers.size(); i-- > 0;) {
      const Transfer& transfer = batch.transfers[i];
      const bool sends = transfer.kind == Transfer::Kind::send;
      processes::Begun& of = number[transfer.peer];
      const std::uint64_t mine = sends ? of.sends-- : of.receives--;
      if (transfer_done(batch, i) || ends_by_itself(batch, i)) continue;
      waits = true;
      const auto before = std::count_if(
          batch.transfers.begin(), batch.transfers.begin() + static_cast<std::ptrdiff_t>(i),
          [&](const Transfer& other) { return other.kind == transfer.kind && other.peer == transfer.peer; });
      row.unfinished.push_back({id(), members()[transfer.peer], sends ? Kind::send : Kind::receive, mine,
                                static_cast<std::uint64_t>(before)});
    }
  }
  std::reverse(row.unfinished.begin() + first, row.unfinished.end());
  for (const processes::Begun& of : begun)
    if (of.sends + of.receives > 0) row.begun.push_back(of);
  return waits;
}

}  // namespace lockstep::mpi

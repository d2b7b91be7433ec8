#include "common/backends/nccl/endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "common/devices/cuda/status.hpp"

namespace lockstep::nccl {

using processes::Envelope;

namespace {

constexpr int kSpins = 200;  // before a wait yields the core for longer

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    case DType::i32: return ncclInt32;
    case DType::i8: return ncclInt8;
  }
  return ncclInt8;
}

}  // namespace

Endpoint::Endpoint(Job& job, std::shared_ptr<Communicator> communicator, int group, int queue)
    : EndpointCore(group, queue, communicator->queue, communicator->members),
      job_(job),
      communicator_(std::move(communicator)) {}

std::uint64_t Endpoint::start(std::span<const Transfer> transfers, Location where, const char* region,
                              const cuda::Event& issued) {
  TransferBatch& batch = add(std::make_unique<TransferBatch>(), transfers, where, region);
  batch.announced.resize(transfers.size());
  batch.ready = issued;
  if (job_.checked()) announce(batch);
  advance();
  const std::uint64_t number = started();
  for (int looks = 0; !job_.checked() && !ready(number); ++looks) {
    if (job_.failed) throw Unwind{};
    job_.gate.unlock();
    if (looks < kSpins)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    job_.gate.lock();
    advance();
  }
  return number;
}

void Endpoint::announce(const TransferBatch& batch) {
  for (const Transfer& transfer : batch.transfers) {
    if (transfer.kind == Transfer::Kind::receive) continue;
    const Envelope envelope = processes::envelope_of(batch, transfer);
    job_.control.send(members()[transfer.peer], {Label::Kind::header, job_.run, id()},
                      std::string(reinterpret_cast<const char*>(&envelope), sizeof envelope));
  }
}

std::optional<Envelope> Endpoint::take_envelope(int member) {
  const auto bytes = job_.control.take(members()[member], {Label::Kind::header, job_.run, id()});
  if (!bytes) return std::nullopt;
  Envelope envelope;
  std::memcpy(&envelope, bytes->data(), sizeof envelope);
  return envelope;
}

void Endpoint::advance() {
  while (launched_ < started() && !job_.failed.load(std::memory_order_relaxed)) {
    TransferBatch& batch = numbered(launched_ + 1);
    if (!launching_) {
      if (job_.checked() && !all_announced(batch)) return;
      begin_launch(batch);
    }
    if (!nccl_has_it()) return;
    end_launch(batch);
  }
}

bool Endpoint::all_announced(TransferBatch& batch) {
  std::vector<bool> missing(members().size(), false);  // by peer: its control messages arrive in order
  bool all = true;
  for (std::size_t i = 0; i < batch.transfers.size(); ++i) {
    const Transfer& transfer = batch.transfers[i];
    if (transfer.kind == Transfer::Kind::send || batch.announced[i] || missing[transfer.peer]) continue;
    const std::optional<Envelope> sent = take_envelope(transfer.peer);
    if (!sent) {
      missing[transfer.peer] = true;
      all = false;
      continue;
    }
    const std::string text = processes::mismatch(members(), *sent, job_.rank, batch, transfer);
    if (!text.empty()) job_.fail(Verdict::mismatch, text);
    batch.announced[i] = true;
    job_.note_activity();
  }
  return all && !job_.failed;
}

/// Gives a whole batch to NCCL. Empty messages need no GPU: both ends know of them. False if NCCL was not called.
bool Endpoint::hand_over(const TransferBatch& batch) {
  if (std::all_of(batch.transfers.begin(), batch.transfers.end(), [](const Transfer& t) { return t.slice.empty(); }))
    return false;
  const ncclComm_t on = communicator_->handle;
  const cudaStream_t stream = communicator_->stream.get();
  GroupOfCalls group;
  for (const Transfer& transfer : batch.transfers) {
    const Slice& slice = transfer.slice;
    if (slice.empty()) continue;
    if (transfer.kind == Transfer::Kind::send)
      check(ncclSend(slice.data(), slice.size(), type_of(slice.dtype()), transfer.peer, on, stream), "ncclSend");
    else
      check(ncclRecv(slice.data(), slice.size(), type_of(slice.dtype()), transfer.peer, on, stream), "ncclRecv");
  }
  group.end();
  return true;
}

void Endpoint::begin_launch(const TransferBatch& batch) {
  const cuda::Stream& stream = communicator_->stream;
  stream.wait(batch.ready);
  Launching fresh{.begin = job_.events.record(stream.get()), .since = std::chrono::steady_clock::now()};
  fresh.calls = hand_over(batch);
  launching_ = std::move(fresh);
}

bool Endpoint::nccl_has_it() const {
  if (!launching_->calls) return true;
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - launching_->since;
  return is_ready(communicator_->handle, "ncclGroupEnd", since.count(), job_.limit().seconds);
}

void Endpoint::end_launch(TransferBatch& batch) {
  Launched launched{batch.number, {}, batch.region, batch.where, batch.ready, {}};
  std::size_t bytes = 0;
  for (const Transfer& transfer : batch.transfers) {
    launched.parts.push_back({transfer.kind, members()[transfer.peer], transfer.slice.bytes()});
    bytes += transfer.slice.bytes();
  }
  batch.done = launched.done = job_.events.record(communicator_->stream.get());
  job_.add_span(launching_->begin, batch.done,
                [queue = queue(), group = group(), count = batch.transfers.size(), bytes, where = batch.where,
                 region = batch.region](Recorder& recorder, double from, double to) {
                  recorder.transferred(queue, group, from, to, count, bytes, where, region);
                });
  on_gpu_.push_back(std::move(launched));
  launching_.reset();
  launched_ = batch.number;
  job_.note_activity();
}

void Endpoint::wait(std::uint64_t number, const cuda::Stream& queue_stream) {
  if (number <= released()) return;
  queue_stream.wait(numbered(number).done);
  while (released() < number) take_oldest();
}

std::uint64_t Endpoint::completed() {
  while (!on_gpu_.empty() && on_gpu_.front().done.done()) {
    completed_ = on_gpu_.front().number;
    on_gpu_.pop_front();
    job_.note_activity();
  }
  return completed_;
}

bool Endpoint::idle() { return completed() == started(); }

void Endpoint::look_for_errors() {
  if (!communicator_->handle || reserved_ || launching_) return;
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(communicator_->handle, &state), "ncclCommGetAsyncError");
  check(state, "an operation of NCCL");
}

processes::Outstanding Endpoint::outstanding() {
  processes::Outstanding result;
  if (completed() < launched_) {
    const Launched& first = on_gpu_.front();
    result.number = first.number;
    result.region = first.region;
    result.where = first.where;
    result.computing = !first.ready.done();
    for (const Launched::Part& part : first.parts) result.add(part.kind, part.bytes, part.peer);
  } else if (launched_ < started()) {
    const TransferBatch& first = numbered(launched_ + 1);
    result.number = first.number;
    result.region = first.region;
    result.where = first.where;
    for (std::size_t i = 0; i < first.transfers.size(); ++i) {
      const Transfer& transfer = first.transfers[i];
      if (!first.announced[i]) result.add(transfer.kind, transfer.slice.bytes(), members()[transfer.peer]);
    }
  }
  return result;
}

std::string Endpoint::take_unread(int member) {
  const std::optional<Envelope> sent = take_envelope(member);
  return sent ? processes::format_sender(members()[member], *sent) : "";
}

}  // namespace lockstep::nccl

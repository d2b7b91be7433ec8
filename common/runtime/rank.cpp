#include "common/rank.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "common/runtime/backend.hpp"
#include "common/runtime/convert.hpp"
#include "common/runtime/errors.hpp"
#include "common/runtime/new_block.hpp"
#include "common/support/text/counted.hpp"

namespace lockstep {

namespace {
CommunicatorKey key_of(const Rank& rank) { return {rank.group(), rank.queue()}; }

/// Why `group` has no rank `peer`. A remainder of a negative number is between −p and 0. A closure may run late.
std::string no_such_rank(const Rank& group, int peer) {
  if (group.size() == 0)
    return fmt::format("but this group has no ranks: it was {}",
                       group.group() < 0 ? "split off with a negative colour" : "never set");
  return fmt::format(
      "but the ranks of this group are 0 to {}{}{}{}", group.size() - 1,
      peer < 0 && peer > -group.size() ? " (in C++ a negative number % p is not positive: add p first)" : "",
      peer == -1 && group.queue() != 0 ? ". −1 is no rank: the ends of a pipeline have no neighbour on one side" : "",
      group.queue() != 0 ? ". Does this closure capture by reference, as [&] does, what is gone when it runs?" : "");
}

Backend& needed(Backend* backend, Location where) {
  if (!backend) usage_error("this Rank was never set: it belongs to no group", where);
  return *backend;
}
}  // namespace

Scope::~Scope() {
  if (backend_) backend_->close_region(queue_);
}

Ticket Rank::start(std::span<const Transfer> batch, Location where) {
  for (const Transfer& transfer : batch) {
    if (transfer.kind > Transfer::Kind::receive) usage_error("a transfer that neither sends nor receives", where);
    const char* verb = transfer.kind == Transfer::Kind::send ? "send to" : "receive from";
    if (transfer.peer < 0 || transfer.peer >= size_)
      usage_error(fmt::format("{} rank {}, {}", verb, transfer.peer, no_such_rank(*this, transfer.peer)), where);
    if (transfer.peer == rank_)
      usage_error(fmt::format("rank {} would {} itself: leave that transfer out, or use copy. Or is the peer wrong?",
                              rank_, verb),
                  where);
    if (!transfer.slice.block())
      usage_error(fmt::format("{} rank {} of a slice that was never allocated", verb, transfer.peer), where);
    need_allocated(transfer.slice, transfer.kind == Transfer::Kind::send ? "send" : "receive", where);
  }
  if (batch.empty()) return {};
  return backend_->start(key_of(*this), batch, where);
}

void Rank::wait(Ticket ticket, Location where) {
  if (ticket.kind == Ticket::Kind::none) return;
  backend_->wait(key_of(*this), ticket, where);
}

Rank Rank::split(int color, int key, Location where) const {
  return needed(backend_, where).split(key_of(*this), color, key, where);
}

Rank Rank::stream(std::string_view name, Location where) const {
  return needed(backend_, where).stream(key_of(*this), name, where);
}

Ticket Rank::run(Rank queue, std::function<void(Rank)> f, Location where) {
  if (queue_ != 0) usage_error("run can only be called on main: a closure cannot run another", where);
  if (queue.backend_ != backend_) usage_error("run: this queue belongs to another rank", where);
  if (queue.queue_ == 0) usage_error("run needs a queue made by stream(name): this one is main", where);
  return backend_->run(key_of(*this), queue, std::move(f), where);
}

Slice Rank::allocate(std::size_t count, DType dtype, Category category, Location where) {
  if (const std::string why = below_zero(count); !why.empty())
    usage_error(fmt::format("allocate({} elements){}", count, why), where);
  // A number in braces makes a value of an enumeration that it does not name, at which ledgers have no room.
  if (static_cast<int>(category) >= kCategories || bytes_of(dtype) == 0)
    usage_error(fmt::format("allocate({} elements): there is no such dtype or category", count), where);
  return needed(backend_, where).allocate(key_of(*this), count, dtype, category, where);
}

Scope Rank::region(const char* name, std::size_t bytes, Location where) {
  needed(backend_, where).open_region(key_of(*this), name, bytes, where);
  return Scope(backend_, queue_);
}

double Rank::now() const { return backend_->now(queue_); }
int Rank::world_rank() const { return backend_->world_rank(); }

RankLedger ledger_of(Rank me) { return me.backend().ledger(); }

void upload(Rank me, Slice slice, std::span<const float> values, Location where) {
  if (values.size() != slice.size())
    usage_error(fmt::format("cannot upload {} into a slice of {}", counted(values.size(), "value"),
                            counted(slice.size(), "element")),
                where);
  if (slice.dtype() == DType::i32 || slice.dtype() == DType::i8)
    usage_error(fmt::format("cannot upload floats into a slice of {}", to_string(slice.dtype())), where);
  if (slice.empty()) return;
  need_allocated(slice, "upload", where);
  if (slice.dtype() == DType::f32) return me.backend().upload(key_of(me), slice, values.data(), where);
  std::vector<std::uint16_t> halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    halves[i] = slice.dtype() == DType::bf16 ? to_bf16(values[i]) : to_f16(values[i]);
  me.backend().upload(key_of(me), slice, halves.data(), where);
}

void upload(Rank me, Slice slice, std::span<const std::int32_t> values, Location where) {
  if (values.size() != slice.size())
    usage_error(fmt::format("cannot upload {} into a slice of {}", counted(values.size(), "value"),
                            counted(slice.size(), "element")),
                where);
  if (slice.dtype() != DType::i32)
    usage_error(fmt::format("cannot upload integers into a slice of {}", to_string(slice.dtype())), where);
  if (slice.empty()) return;
  need_allocated(slice, "upload", where);
  me.backend().upload(key_of(me), slice, values.data(), where);
}

float read(Rank me, Slice scalar, float if_phantom, Location where) {
  if (scalar.size() != 1 || scalar.dtype() != DType::f32)
    usage_error(
        fmt::format("read needs a slice of one fp32 element, not {} of {}", scalar.size(), to_string(scalar.dtype())),
        where);
  need_allocated(scalar, "read", where);
  float value = if_phantom;
  me.backend().download(key_of(me), scalar, &value, where);
  return value;
}

namespace {
std::vector<float> widen(const std::vector<char>& bytes, DType dtype) {
  std::vector<float> values(bytes.size() / bytes_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_as_float(bytes.data(), i, dtype);
  return values;
}
}  // namespace

std::vector<float> to_host(Rank me, Slice slice, Location where) {
  need_allocated(slice, "to_host", where);
  std::vector<char> bytes(slice.bytes());
  if (!slice.empty()) me.backend().download(key_of(me), slice, bytes.data(), where);
  return widen(bytes, slice.dtype());
}

void show(Rank me, Slice slice, std::string_view label, Location where) {
  std::vector<char> bytes(slice.bytes());
  std::string text = fmt::format("[rank {}, {}] {} ({} × {}):", me.world_rank(), describe(where), label, slice.size(),
                                 to_string(slice.dtype()));
  if (slice.empty() || !me.backend().peek(key_of(me), slice, bytes.data())) {
    text += slice.empty() ? " empty" : " phantom";
  } else {
    std::vector<float> values = widen(bytes, slice.dtype());
    for (std::size_t i = 0; i < values.size() && i < 8; ++i) text += fmt::format(" {:g}", values[i]);
    if (values.size() > 8) text += " …";
  }
  text += '\n';
  std::fputs(text.c_str(), stderr);
}

}  // namespace lockstep

#include "tools/analyse/drill/faulty_backend.hpp"

namespace lockstep::drill {

Ticket FaultyBackend::start(CommunicatorKey at, std::span<const Transfer> batch, Location where) {
  if (differs_.loses && differs_.loses(at, batch)) return {};
  return inner_->start(at, batch, where);
}

void FaultyBackend::wait(CommunicatorKey at, Ticket ticket, Location where) { inner_->wait(at, ticket, where); }

Rank FaultyBackend::split(CommunicatorKey at, int color, int key, Location where) {
  return as(inner_->split(at, color, key, where));
}

Rank FaultyBackend::stream(CommunicatorKey at, std::string_view name, Location where) {
  return as(inner_->stream(at, name, where));
}

Ticket FaultyBackend::run(CommunicatorKey main, Rank queue, std::function<void(Rank)> f, Location where) {
  const Rank inner(*inner_, queue.group(), queue.queue(), queue.rank(), queue.size());
  return inner_->run(
      main, inner, [this, f = std::move(f)](Rank on) { f(as(on)); }, where);
}

Slice FaultyBackend::allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) {
  return inner_->allocate(at, count, dtype, category, where);
}

void FaultyBackend::compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) {
  Operation priced = operation;
  if (differs_.price) differs_.price(priced);
  inner_->compute(at, priced, kernel, where);
}

void FaultyBackend::open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) {
  inner_->open_region(at, name, bytes, where);
}

void FaultyBackend::upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) {
  inner_->upload(at, slice, values, where);
}

bool FaultyBackend::download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) {
  return inner_->download(at, slice, bytes, where);
}

}  // namespace lockstep::drill

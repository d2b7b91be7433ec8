#include "common/testing/fakes/cuda/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "common/testing/fakes/cuda/order.hpp"
#include "common/testing/fakes/cuda/poison.hpp"

namespace lockstep::fake {

namespace {

/// Returns memory to the host when no task can use it any more.
void give_back(char* whole, std::size_t bytes) {
  order::begins_anew(whole, bytes);
  std::free(whole);
}

std::string words(MemoryKind place) { return place == MemoryKind::device ? "GPU memory" : "pinned memory"; }

}  // namespace

void Memory::begin(int devices, std::size_t bytes_per_device) {
  forget();
  used_.assign(std::max(devices, 1), 0);
  limit_ = bytes_per_device;
}

Allocation* Memory::allocate(std::size_t bytes, MemoryKind place, int device) {
  if (place == MemoryKind::device && (bytes > limit_ || used_[device] > limit_ - bytes)) return nullptr;
  char* const whole = static_cast<char*>(std::aligned_alloc(256, whole_bytes(bytes)));
  if (!whole) return nullptr;
  if (place == MemoryKind::device) used_[device] += bytes;
  char* const data = whole + kGuard;
  poison(whole, kGuard, Poison::guard);
  poison(data + bytes, whole + whole_bytes(bytes) - (data + bytes), Poison::guard);
  Allocation& made = by_address_[reinterpret_cast<std::uintptr_t>(data)];
  made = {data, bytes, place, device, false};
  return &made;
}

Allocation* Memory::find(const void* begin) {
  const auto found = by_address_.find(reinterpret_cast<std::uintptr_t>(begin));
  return found == by_address_.end() ? nullptr : &found->second;
}

Allocation* Memory::containing(const void* address) {
  auto after = by_address_.upper_bound(reinterpret_cast<std::uintptr_t>(address));
  if (after == by_address_.begin()) return nullptr;
  Allocation& before = std::prev(after)->second;
  return static_cast<const char*>(address) < before.data + std::max<std::size_t>(before.bytes, 1) ? &before : nullptr;
}

std::size_t Memory::freed_bytes(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto after = gone_by_address_.upper_bound(at);
  if (after == gone_by_address_.begin()) return 0;
  const auto& [data, bytes] = *std::prev(after);
  return at < data + bytes ? bytes : 0;
}

std::vector<std::string> Memory::guards(const Allocation& a) {
  if (!is_poison(a.data - kGuard, kGuard, Poison::guard)) {
    return {fmt::format("something wrote before the begin of {} bytes of {}", a.bytes, words(a.place))};
  }
  const std::size_t behind = whole_bytes(a.bytes) - kGuard - a.bytes;
  if (!is_poison(a.data + a.bytes, behind, Poison::guard)) {
    return {fmt::format("something wrote beyond the end of {} bytes of {}", a.bytes, words(a.place))};
  }
  return {};
}

std::vector<std::string> Memory::release(Allocation* allocation) {
  const Allocation a = *allocation;
  by_address_.erase(reinterpret_cast<std::uintptr_t>(a.data));
  std::vector<std::string> problems = guards(a);
  if (a.place == MemoryKind::device) used_[a.device] -= a.bytes;
  char* const whole = a.data - kGuard;
  poison(whole, whole_bytes(a.bytes), Poison::freed);
  gone_.push_back({whole, a.bytes});
  gone_by_address_[reinterpret_cast<std::uintptr_t>(a.data)] = a.bytes;
  gone_bytes_ += whole_bytes(a.bytes);
  while (gone_bytes_ > kMostGone) {
    const Gone oldest = gone_.front();
    gone_.pop_front();
    gone_by_address_.erase(reinterpret_cast<std::uintptr_t>(oldest.whole + kGuard));
    gone_bytes_ -= whole_bytes(oldest.bytes);
    for (std::string& problem : late_writes(oldest)) problems.push_back(std::move(problem));
    give_back(oldest.whole, whole_bytes(oldest.bytes));
  }
  return problems;
}

std::vector<std::string> Memory::late_writes(const Gone& gone) {
  if (is_poison(gone.whole, whole_bytes(gone.bytes), Poison::freed)) return {};
  poison(gone.whole, whole_bytes(gone.bytes), Poison::freed);
  return {fmt::format("something wrote to {} bytes after they were freed", gone.bytes)};
}

std::vector<std::string> Memory::check() {
  std::vector<std::string> problems;
  for (const auto& [address, allocation] : by_address_) {
    for (std::string& problem : guards(allocation)) problems.push_back(std::move(problem));
  }
  for (const Gone& gone : gone_) {
    for (std::string& problem : late_writes(gone)) problems.push_back(std::move(problem));
  }
  return problems;
}

std::vector<const Allocation*> Memory::all() const {
  std::vector<const Allocation*> result;
  for (const auto& [address, allocation] : by_address_) result.push_back(&allocation);
  return result;
}

void Memory::forget() {
  for (const Gone& gone : gone_) give_back(gone.whole, whole_bytes(gone.bytes));
  for (const auto& [address, allocation] : by_address_) {
    give_back(allocation.data - kGuard, whole_bytes(allocation.bytes));
  }
  gone_.clear();
  gone_by_address_.clear();
  gone_bytes_ = 0;
  by_address_.clear();
}

}  // namespace lockstep::fake

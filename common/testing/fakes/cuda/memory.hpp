// The memory of the fake GPU: its allocations and their state. The caller holds the runtime's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace lockstep::fake {

enum class MemoryKind { device, pinned };

struct Allocation {
  char* data = nullptr;  // between two guard zones
  std::size_t bytes = 0;
  MemoryKind place = MemoryKind::device;
  int device = 0;
  bool freed = false;  // by the host; the stream may not have reached the free yet
};

class Memory {
 public:
  ~Memory() { forget(); }

  void begin(int devices, std::size_t bytes_per_device);

  /// Returns null if the device is full. Device memory is aligned to 256 bytes and not poisoned yet.
  Allocation* allocate(std::size_t bytes, MemoryKind place, int device);

  /// Returns the allocation that begins at, or contains, an address; null if there is none.
  Allocation* find(const void* begin);
  Allocation* containing(const void* address);

  /// Returns the bytes of the freed allocation that contained an address, as long as it is remembered; else 0.
  std::size_t freed_bytes(const void* address) const;

  /// Frees an allocation: checks the guard zones and poisons device memory. Returns problems.
  std::vector<std::string> release(Allocation* allocation);

  /// Checks all guard zones and freed memory. Returns problems.
  std::vector<std::string> check();
  std::vector<const Allocation*> all() const;
  void forget();

  std::size_t used_bytes(int device) const { return used_[device]; }

 private:
  struct Gone {
    char* whole;        // including the guard zones
    std::size_t bytes;  // excluding them
  };
  static constexpr std::size_t kGuard = 256;
  static constexpr std::size_t kMostGone = 32u << 20;  // bytes of freed memory kept, to detect writes to it
  static std::vector<std::string> guards(const Allocation& allocation);
  static std::size_t whole_bytes(std::size_t bytes) { return (bytes + 255) / 256 * 256 + 2 * kGuard; }
  static std::vector<std::string> late_writes(const Gone& gone);

  std::map<std::uintptr_t, Allocation> by_address_;
  std::deque<Gone> gone_;  // oldest first
  std::map<std::uintptr_t, std::size_t> gone_by_address_;
  std::size_t gone_bytes_ = 0;
  std::vector<std::size_t> used_;
  std::size_t limit_ = 0;
};

}  // namespace lockstep::fake

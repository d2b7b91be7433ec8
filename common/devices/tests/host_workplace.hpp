// Slices in host memory, for a device that computes there synchronously.
#pragma once

#include <cstdlib>
#include <cstring>

#include "common/devices/tests/workplace.hpp"

namespace lockstep::testing {

class HostWorkplace final : public Workplace {
 public:
  explicit HostWorkplace(Device& shared) : device_(shared) {}
  explicit HostWorkplace(std::unique_ptr<Device> own) : own_(std::move(own)), device_(*own_) {}

  Device& device() override { return device_; }
  void* allocate(std::size_t bytes) override { return std::memset(std::malloc(bytes), 0xff, bytes); }
  void release(void* data) override { std::free(data); }
  void upload(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void check_work(Location) override {}  // it throws at once

 private:
  std::unique_ptr<Device> own_;  // empty when shared
  Device& device_;
};

}  // namespace lockstep::testing

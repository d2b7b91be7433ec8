// What the device of this process did that results should say.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct DeviceNote {
  std::string field, value;  // of the context of results (docs/output.md)
  std::string line;          // for people; empty: nothing unusual
};

/// Since the process began. Empty where the backend computes on the host.
std::vector<DeviceNote> device_notes();

}  // namespace lockstep

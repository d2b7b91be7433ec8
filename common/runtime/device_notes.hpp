// Facts about this process's device that results should mention.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct DeviceNote {
  std::string field, value;  // a field of the results' context (docs/use/output.md)
  std::string line;          // for people; empty if nothing is unusual
};

/// Notes since the process began. Empty if the backend computes on the host.
std::vector<DeviceNote> device_notes();

}  // namespace lockstep

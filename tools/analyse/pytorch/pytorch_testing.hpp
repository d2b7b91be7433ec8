// Files that PyTorch wrote, and pages made from them.
#pragma once

#include <string>

#include "common/support/text/files.hpp"

namespace lockstep::pytorch {

inline std::string sample(const std::string& name) {
  return LOCKSTEP_SOURCE_DIR "/tools/analyse/pytorch/samples/" + name;
}
inline std::string page_of(const std::string& name) { return read_file(LOCKSTEP_SOURCE_DIR "/docs/use/" + name); }

}  // namespace lockstep::pytorch

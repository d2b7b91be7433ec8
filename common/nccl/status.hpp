// Every NCCL call goes through check: a status that is neither success nor "in progress" becomes an Error that names
// the call, the computer and the GPU. The failure report adds the rank.
#pragma once

#include <nccl.h>

#include <string>

#include "common/error.hpp"
#include "common/misuse.hpp"

namespace lockstep::nccl {

/// Throws Error(fail) "ncclSend: invalid usage (host NAME, GPU 0, at file:line)", with NCCL's last words where it has
/// some.
void check(ncclResult_t status, const char* call, Location where = Location::current());

/// The library that this program found, as NCCL counts: 22809 is 2.28.9.
int library_version();
std::string version_text(int version);

}  // namespace lockstep::nccl

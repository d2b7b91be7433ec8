// What a sender tells a receiver before the data: enough to compare both ends, and to explain where they differ.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/slice.hpp"

namespace lockstep::nccl {

struct Envelope {
  std::uint64_t elements = 0;
  DType dtype = DType::f32;
  std::string region;  // the collective it is part of; empty: none
  std::string where;   // the line, in words
};

std::string write(const Envelope& envelope);
Envelope parse_announcement(const std::string& text);

/// "rank 1 sends 3 fp32 at ring.cpp:31 (all_gather) in region "all_reduce"".
std::string side_in_words(int rank, const char* verb, const Envelope& side);

/// What the two ends disagree on, or null.
const char* difference(const Envelope& send, const Envelope& receive);

}  // namespace lockstep::nccl

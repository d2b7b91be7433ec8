#include "common/backends/nccl/envelope.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace lockstep::nccl {

namespace {
constexpr char kBetween = '\n';

std::string next_field(const std::string& text, std::size_t& at) {
  const std::size_t end = std::min(text.find(kBetween, at), text.size());
  std::string field = text.substr(at, end - at);
  at = end + 1;
  return field;
}
}  // namespace

std::string write(const Envelope& a) {
  return fmt::format("{}{}{}{}{}{}{}", a.elements, kBetween, static_cast<int>(a.dtype), kBetween, a.region, kBetween,
                     a.where);
}

Envelope parse_announcement(const std::string& text) {
  std::size_t at = 0;
  Envelope a;
  a.elements = std::strtoull(next_field(text, at).c_str(), nullptr, 10);
  a.dtype = static_cast<DType>(std::atoi(next_field(text, at).c_str()));
  a.region = next_field(text, at);
  a.where = next_field(text, at);
  return a;
}

std::string side_in_words(int rank, const char* verb, const Envelope& side) {
  return fmt::format("rank {} {} {} {} at {}{}", rank, verb, side.elements, to_string(side.dtype), side.where,
                     side.region.empty() ? "" : fmt::format(" in region \"{}\"", side.region));
}

const char* difference(const Envelope& send, const Envelope& receive) {
  if (send.elements * bytes_of(send.dtype) != receive.elements * bytes_of(receive.dtype)) return "the size";
  if (send.dtype != receive.dtype) return "the element type";
  // A message between a collective and plain code is fine; between two collectives it is lost.
  if (!send.region.empty() && !receive.region.empty() && send.region != receive.region) return "the collective";
  return nullptr;
}

}  // namespace lockstep::nccl

// Readers of files that others wrote, as functions of a text: for a fuzzer, and for the inputs that it has found.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep::fuzz {

/// A parser, and the use made of its result.
struct Target {
  std::string_view name;
  /// Returns, or throws Error(usage) with one sentence; whatever else happens is a fault.
  void (*read)(const std::string& text);
};

/// One for every kind of file: machine, schedule, strategy, …
std::span<const Target> targets();

/// Runs a target on `text`. Returns "" if it read or rejected the text as it should, else what was thrown instead.
std::string fault(const Target& target, const std::string& text);

}  // namespace lockstep::fuzz

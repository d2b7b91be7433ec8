#include "common/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "PASS";
    case Verdict::fail: return "FAIL";
    case Verdict::deadlock: return "DEADLOCK";
    case Verdict::race: return "RACE";
    case Verdict::mismatch: return "MISMATCH";
    case Verdict::unread: return "UNREAD";
    case Verdict::usage: return "USAGE";
    case Verdict::timeout: return "TIMEOUT";
    case Verdict::crash: return "CRASH";
    case Verdict::not_implemented: return "NOT IMPLEMENTED";
    case Verdict::does_not_compile: return "DOES NOT COMPILE";
  }
  return "FAIL";  // a number that no verdict has
}

std::string with_verdict(std::string_view verdict, const std::string& message) {
  const std::string_view first_line(message.data(), std::min(message.find('\n'), message.size()));
  return first_line.find(verdict) == first_line.npos ? fmt::format("{}: {}", verdict, message) : message;
}

std::string describe(Location where) {
  std::string_view file = where.file_name();
  if (auto slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  // "void lockstep::ring(lockstep::Rank, lockstep::Slice)" and closures "lockstep::f(…)::<lambda(…)>" → the name alone.
  // Clang writes "lockstep::(anonymous namespace)::ring(…)", whose first parenthesis does not begin the parameters.
  std::string_view name = where.function_name();
  auto parenthesis = name.find('(');
  while (parenthesis != name.npos && name.substr(parenthesis).starts_with("(anonymous"))
    parenthesis = name.find('(', parenthesis + 1);
  name = name.substr(0, parenthesis);
  if (auto space = name.rfind(' '); space != name.npos) name.remove_prefix(space + 1);
  if (auto colon = name.rfind(':'); colon != name.npos) name.remove_prefix(colon + 1);
  return fmt::format("{}:{} ({})", file, where.line(), name);
}

void usage_error(const std::string& message, Location where) {
  throw Error(Verdict::usage, fmt::format("USAGE at {}: {}", describe(where), message));
}

void todo(std::string_view exercise, std::string_view what, Location where) {
  throw Error(Verdict::not_implemented,
              fmt::format("exercise {} is not implemented yet: {} — at {}", exercise, what, describe(where)));
}

void does_not_compile(std::string_view exercise, std::string_view explanation) {
  throw Error(Verdict::does_not_compile, fmt::format("exercise {} does not compile: {}", exercise, explanation));
}

}  // namespace lockstep

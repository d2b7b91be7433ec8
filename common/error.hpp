// Every error of the runtime, as one exception type. Only `main` prints it and exits.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// Source line of lab code that called a verb; every verb takes one as its last argument.
using Location = std::source_location;

/// Name of a run's, a test's or a misuse's result. `to_string` gives the words that users read.
enum class Verdict {
  pass,
  fail,              // an expectation did not hold, or a rank threw
  deadlock,          // no rank can make progress
  race,              // two unordered uses of the same bytes, one of them a write
  mismatch,          // both sides of a message disagree (size, dtype, region), or set-up calls differ
  unread,            // a message was sent and never received
  usage,             // a verb was called in a way the contract forbids
  timeout,           // no progress within the time allowed
  crash,             // a rank's process died
  not_implemented,   // a `todo` was reached
  does_not_compile,  // the stub of a file with compiler errors was reached
};

std::string_view to_string(Verdict verdict);

/// "FAIL: rank 0: …": the verdict, then the message; the verdict is omitted if the message already names it.
std::string with_verdict(std::string_view verdict, const std::string& message);

/// The runtime's only exception type. `what()` is a complete message that needs no context.
class Error : public std::runtime_error {
 public:
  /// No error is a pass: a verdict of pass counts as fail.
  Error(Verdict verdict, const std::string& message)
      : std::runtime_error(message), verdict_(verdict == Verdict::pass ? Verdict::fail : verdict) {}
  Verdict verdict() const { return verdict_; }

 private:
  Verdict verdict_;
};

/// The computer lacks the backend's hardware: "no CUDA device (…)". Thrown by Session; tests are then skipped.
class NoDevice : public Error {
 public:
  static constexpr int kExitCode = 77;  // exit code of a program that ends with it; CTest's SKIP_RETURN_CODE
  explicit NoDevice(const std::string& message) : Error(Verdict::fail, message) {}
};

/// A misuse of the contract: "USAGE at file:line in function: message".
[[noreturn]] void usage_error(const std::string& message, Location where = Location::current());

/// "ring_all_reduce.cpp:31 (reduce_scatter)": the file's name without folders, the line and the function.
std::string describe(Location where);

/// Placeholder for an answer in a skeleton: throws Error(Verdict::not_implemented).
[[noreturn]] void todo(std::string_view exercise, std::string_view what, Location where = Location::current());

/// Body of the stub for an exercise that does not compile: throws Error(Verdict::does_not_compile). `explanation` holds
/// the compiler's first error in the student's file.
[[noreturn]] void does_not_compile(std::string_view exercise, std::string_view explanation);

}  // namespace lockstep

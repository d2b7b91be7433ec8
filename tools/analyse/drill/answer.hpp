// A learner's answer: four words in a file, judged one by one.
#pragma once

#include <string>
#include <vector>

namespace lockstep::drill {

struct Answer {
  std::string kind, rank, operation, evidence;
};

/// Reads lines "kind: straggler"; # begins a comment. Throws Error(usage) that begins with `name` and the line's number
/// for any other line, an unknown field, or one that is there twice.
Answer parse_answer(const std::string& text, const std::string& name);

/// The quantity that a number of the evidence counts.
enum class Unit { count, bytes, seconds };

struct Truth {
  std::string kind;
  std::string rank;       ///< "2", or "all"
  std::string operation;  ///< "matmul", "all_reduce 17"
  double evidence = 0;
  Unit unit = Unit::count;
  double tolerance = 0;  ///< of the evidence, relative: tables print a few digits
};

/// A number as the tables print it: "41.2 ms", "0.0412", "4097 B", "3". Throws Error(usage) where it is none.
double parse_evidence(const std::string& text, Unit unit);

struct FieldVerdict {
  enum class Is { right, wrong, empty, not_judged };
  std::string field;
  Is is = Is::empty;
};
/// Verdicts on kind, rank, operation and evidence, in this order. The kind decides what counts as operation and
/// evidence: both are not judged while the kind is wrong. The last word of an operation counts.
std::vector<FieldVerdict> judge(const Answer& answer, const Truth& truth);
bool all_right(const std::vector<FieldVerdict>& verdicts);

}  // namespace lockstep::drill

// Calls an answer's functions in tests that do not run ranks. Grading judges results in a process without the answer:
// there the same test takes results that were handed over instead of calling (handed_over.hpp).
//
//   constexpr auto speedup = answer<week21::speedup>;  // called as before: speedup(12, 4)
#pragma once

#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/error.hpp"
#include "common/runtime/processes/bytes.hpp"
#include "common/support/text/members.hpp"
#include "common/testing/handed_over.hpp"

namespace lockstep::testing {

/// Returns the result of `call`, or throws its Error, and fills `changed`: by calling here, or from the results handed
/// over. `what` names the call and its arguments.
template <class Call, class... Changed>
auto answered(const std::string& what, const Call& call, Changed&... changed) {
  using Result = decltype(call());
  if (!calls_are_handed_over()) return call();
  Verdict error = Verdict::pass;
  std::string words;
  std::conditional_t<std::is_void_v<Result>, bool, Result> result{};
  if (calls_were_handed_over()) {
    processes::from_bytes(handed_over_call(what), error, words, result, changed...);
  } else {
    const OneOutcome whole;
    try {
      if constexpr (std::is_void_v<Result>)
        call();
      else
        result = call();
    } catch (const Error& thrown) {
      error = thrown.verdict(), words = thrown.what();
    }
    hand_over_call(what, processes::to_bytes(error, words, result, changed...));
  }
  if (error != Verdict::pass) throw Error(error, words);
  if constexpr (!std::is_void_v<Result>) return result;
}

/// "speedup", of lockstep::week21::speedup.
template <auto function>
std::string name_of_function() {
  const std::string_view all = std::source_location::current().function_name();
  const std::string_view name = all.substr(all.rfind(':') + 1);
  return std::string(name.substr(0, name.find_first_of("]>;")));
}

/// An argument that the call may change, by its type as declared; nothing of others.
template <class Argument>
auto& changed(std::remove_reference_t<Argument>& argument) {
  if constexpr (std::is_lvalue_reference_v<Argument> && !std::is_const_v<std::remove_reference_t<Argument>>) {
    return argument;
  } else {
    static std::monostate nothing;
    return nothing;
  }
}

template <auto function>
struct Answered;
template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct Answered<function> {
  static Result call(Arguments... arguments) {
    if (!calls_are_handed_over()) return function(std::forward<Arguments>(arguments)...);
    const std::string what = name_of_function<function>() + "(" + words_of_values(arguments...) + ")";
    return answered(
        what, [&] { return function(std::forward<Arguments>(arguments)...); }, changed<Arguments>(arguments)...);
  }
};

/// `function`, an answer's, whose calls are answered().
template <auto function>
inline constexpr auto answer = &Answered<function>::call;

}  // namespace lockstep::testing

#include "tools/calculators/playground/answer.hpp"

#include "tools/analyse/view/json_text.hpp"

namespace lockstep::playground {

std::string sentence(const Error& error) {
  const std::string message = error.what();
  const std::size_t end = message.find("): ");
  return message.starts_with("USAGE at ") && end != message.npos ? message.substr(end + 3) : message;
}

namespace {

std::string answer_of(const Request& request) {
  if (request.view() == "pipeline") return pipeline(request);
  if (request.view() == "schedule") return schedule(request);
  if (request.view() == "memory") return memory(request);
  if (request.view() == "all_reduce") return all_reduce(request);
  if (request.view() == "overlap") return overlap(request);
  if (request.view() == "plan") return plan_layouts(request);
  throw Error(Verdict::usage, fmt::format("there is no view '{}'", request.view()));
}

}  // namespace

std::string answer(std::string_view question) {
  try {
    return answer_of(Request(question));
  } catch (const Error& error) {
    return fmt::format(R"({{"error":{}}})", view::text(sentence(error)));
  }
}

}  // namespace lockstep::playground

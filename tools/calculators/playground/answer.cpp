#include "tools/calculators/playground/answer.hpp"

#include "tools/analyse/view/json_text.hpp"

namespace lockstep::playground {

std::string sentence(const Error& error) {
  const std::string message = error.what();
  const std::size_t end = message.find("): ");
  return message.starts_with("USAGE at ") && end != message.npos ? message.substr(end + 3) : message;
}

std::string answer(std::string_view question, std::span<const View> views) {
  try {
    const Request request(question);
    for (const View& view : views)
      if (view.name == request.view()) return view.answer(request);
    throw Error(Verdict::usage, fmt::format("there is no view '{}'", request.view()));
  } catch (const Error& error) {
    return fmt::format(R"({{"error":{}}})", view::text(sentence(error)));
  }
}

}  // namespace lockstep::playground

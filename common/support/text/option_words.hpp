// Messages about a wrong command line: one sentence, with the nearest known name. Only this file knows the parser's
// errors; it is included where CLI11 is.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "common/support/text/nearest.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep {

/// For CLI::Option::check: requires a whole number in [least, most].
inline CLI::Validator whole_number(long least, long most = 1'000'000'000) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        const std::optional<long> value = parse_number<long>(text);
        return value && *value >= least && *value <= most
                   ? std::string()
                   : "needs a whole number from " + std::to_string(least) + " to " +
                         (most == 1'000'000'000 ? "1,000,000,000" : std::to_string(most)) + ", not '" + text + "'";
      },
      "");
}

/// The same for a number in [least, most]; neither infinite nor NaN.
inline CLI::Validator real_number(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
        constexpr double kAny = std::numeric_limits<double>::max();
        const auto written = [](double number) {
          std::ostringstream out;
          out << number;
          return out.str();
        };
        if (good) return std::string();
        return "needs a number" + (most == kAny ? "" : " from " + written(least) + " to " + written(most)) + ", not '" +
               text + "'";
      },
      "");
}

/// The same for a word that is not empty. Scripts pass an empty one when a variable is not set.
inline CLI::Validator not_empty() {
  return CLI::Validator([](const std::string& text) { return text.empty() ? "needs a value, not ''" : ""; }, "");
}

/// The same for one of a few words.
inline CLI::Validator one_of(std::vector<std::string> known) {
  return CLI::Validator(
      [known = std::move(known)](const std::string& text) {
        const bool good = std::find(known.begin(), known.end(), text) != known.end();
        return good ? std::string() : unknown_name("value", text, known);
      },
      "");
}

namespace option_words {

/// Adds the options of the application and of its groups.
inline void add_options(const CLI::App& app, std::vector<const CLI::Option*>& all) {
  for (const CLI::Option* option : app.get_options({}))
    if (std::find(all.begin(), all.end(), option) == all.end()) all.push_back(option);
  for (const CLI::App* group : app.get_subcommands({}))
    if (group->get_name().empty()) add_options(*group, all);
}

/// Returns "--name", or the name of a positional argument.
inline std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name(true) : "--" + option.get_lnames().front();
}

/// Describes the value that an option's type requires, if one of its values is invalid.
inline std::string wrong_value(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  for (const std::string& text : option.results()) {
    if (type.starts_with("UINT") && (!parse_number<long long>(text) || text.starts_with("-")))
      return name_of(option) + " needs a whole number that is not negative, not '" + text + "'";
    if (type.starts_with("INT") && !parse_number<long long>(text))
      return name_of(option) + " needs a whole number, not '" + text + "'";
    if (type.starts_with("INT") && !parse_number<int>(text)) return name_of(option) + " cannot be as large as " + text;
    if (type.starts_with("FLOAT") && !parse_number<double>(text))
      return name_of(option) + " needs a number, not '" + text + "'";
  }
  return "";
}

/// Returns ": ./lab handout FILE.zip --weeks …": what a command cannot do without.
inline std::string usage(const CLI::App& app, const std::vector<const CLI::Option*>& all) {
  if (app.get_name().empty()) return "";
  std::string text = ": ./lab " + app.get_name();
  for (const CLI::Option* option : all)
    if (option->get_required()) text += " " + name_of(*option) + (option->get_lnames().empty() ? "" : " …");
  return text;
}

inline std::string unexpected(const std::vector<std::string>& extras, const std::vector<const CLI::Option*>& all) {
  std::vector<OptionName> known;
  for (const CLI::Option* option : all)
    for (const std::string& name : option->get_lnames()) known.push_back({"--" + name, option->get_description()});
  for (const std::string& extra : extras)
    if (extra.starts_with("-")) return unknown_option(extra, known);
  return "'" + (extras.empty() ? std::string() : extras.front()) + "' is not an option; --help lists them.";
}

}  // namespace option_words

/// Returns one sentence. `app`: the command that was parsed; `extras`: words that it could not assign.
inline std::string format_parse_error(const CLI::App& app, const CLI::ParseError& error,
                                      const std::vector<std::string>& extras) {
  using namespace option_words;
  std::vector<const CLI::Option*> all;
  add_options(app, all);
  const std::string said = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) return unexpected(extras, all);
  if (dynamic_cast<const CLI::ConversionError*>(&error))
    for (const CLI::Option* option : all)
      if (const std::string wrong = wrong_value(*option); !wrong.empty()) return wrong;
  if (dynamic_cast<const CLI::RequiredError*>(&error))
    for (const CLI::Option* option : all)
      if (option->get_required() && option->count() == 0)
        return name_of(*option) + " is missing, " + option->get_description() + usage(app, all);
  const std::size_t colon = said.find(':');  // the parser's message is "--name: what is wrong"
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) && colon != said.npos)
    return said.substr(0, colon) +
           (said.find("missing") != said.npos ? " needs a value" : " is given more than once, or with too many values");
  if (dynamic_cast<const CLI::ValidationError*>(&error) && colon != said.npos && said.starts_with("--"))
    return said.substr(0, colon) + (said.compare(colon, 7, ": needs") == 0 ? "" : ":") + said.substr(colon + 1);
  return said;
}

}  // namespace lockstep

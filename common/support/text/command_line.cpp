#include "common/support/text/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "common/error.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/option_words.hpp"

namespace lockstep {

struct CommandLine::Parser {
  Parser(const std::string& program, const std::string& description) : app(description, program) {}

  template <class Number>
  void add_whole(const std::string& names, Number& value, const std::string& help, Whole range) {
    CLI::Option* option = group->add_option(names, value, help)->check(whole_number(range.least, range.most));
    const auto by_default = static_cast<long>(value);
    if (by_default >= range.least && by_default <= range.most) option->capture_default_str();
  }

  /// Rewords the parser's message about a line of a file that is not an option.
  std::string unknown_line(const CLI::ConfigError& error) const {
    std::string said = error.what();
    const std::string before = "INI was not able to parse ";
    if (said.starts_with(before)) {
      std::vector<const CLI::Option*> all;
      option_words::add_options(app, all);
      said = option_words::unexpected({"--" + said.substr(before.size())}, all);
    }
    return app.get_config_ptr()->as<std::string>() + ": " + said + " Every line is an option without its dashes.";
  }

  /// Rejects an empty word unless it is an option's value. The parser takes one for the name of a group, which does not
  /// exist, and may search for the next word forever.
  void refuse_stray_empty_words(int argc, char** argv) const {
    bool only_words = false;  // after "--"
    for (int i = 1; i < argc; ++i) {
      only_words = only_words || std::string_view(argv[i]) == "--";
      if (*argv[i] != '\0') continue;
      const CLI::Option* before = app.get_option_no_throw(argv[i - 1]);
      if (only_words || !before || before->get_expected_max() == 0)
        throw Error(Verdict::usage, fmt::format("argument {} is empty: is a variable not set?", i));
    }
  }

  CLI::App app;
  CLI::App* group = &app;  // group to which options are added
  std::vector<std::pair<std::string, std::string>> excluding;
  std::string config;  // name of the option for a file of options; empty: none
};

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : parser_(std::make_unique<Parser>(program, description)) {}
CommandLine::~CommandLine() = default;

void CommandLine::group(const std::string& title) { parser_->group = parser_->app.add_option_group(title); }

void CommandLine::add(const std::string& names, std::string& value, const std::string& help) {
  parser_->group->add_option(names, value, help)->check(not_empty())->capture_default_str();
}
void CommandLine::add(const std::string& names, int& value, const std::string& help) {
  parser_->group->add_option(names, value, help)->check(not_empty())->capture_default_str();
}
void CommandLine::add(const std::string& names, double& value, const std::string& help, Real range) {
  parser_->group->add_option(names, value, help)->check(real_number(range.least, range.most))->capture_default_str();
}
void CommandLine::add(const std::string& names, bool& value, const std::string& help) {
  parser_->group->add_flag(names, value, help);
}
void CommandLine::add(const std::string& names, int& value, const std::string& help, Whole range) {
  parser_->add_whole(names, value, help, range);
}
void CommandLine::add(const std::string& names, std::size_t& value, const std::string& help, Whole range) {
  parser_->add_whole(names, value, help, range);
}
void CommandLine::add(const std::string& names, std::optional<double>& value, const std::string& help, Real range) {
  parser_->group->add_option(names, value, help)->check(real_number(range.least, range.most));
}
void CommandLine::add(const std::string& names, std::vector<std::string>& values, const std::string& help) {
  parser_->group->add_option(names, values, help)->check(not_empty())->delimiter(',')->capture_default_str();
}

void CommandLine::exclude(const std::string& name, const std::vector<std::string>& others) {
  for (const std::string& other : others) parser_->excluding.emplace_back(name, other);
}

void CommandLine::add_config(const std::string& name, const std::string& help) {
  parser_->config = name;
  parser_->app.set_config(name, "", help);
  parser_->app.allow_config_extras(CLI::config_extras_mode::error);
}

bool CommandLine::parse(int argc, char** argv, bool prints) {
  for (int i = 1; i < argc && !parser_->config.empty(); ++i) {  // opening a pipe would wait for its writer
    const std::string argument = argv[i];
    if (argument == parser_->config && i + 1 < argc) read_file(argv[i + 1]);
    if (argument.starts_with(parser_->config + "=")) read_file(argument.substr(parser_->config.size() + 1));
  }
  parser_->refuse_stray_empty_words(argc, argv);
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (prints) fmt::print("{}", parser_->app.help());
    return false;
  } catch (const CLI::ConfigError& error) {
    throw Error(Verdict::usage, parser_->unknown_line(error));
  } catch (const CLI::ParseError& error) {
    throw Error(Verdict::usage, format_parse_error(parser_->app, error, parser_->app.remaining()));
  }
  for (const auto& [name, other] : parser_->excluding)
    if (given(name) && given(other))
      throw Error(Verdict::usage, fmt::format("{} has no effect together with {}: leave one of them out", other, name));
  return true;
}

bool CommandLine::given(const std::string& name) const { return parser_->app.get_option(name)->count() > 0; }

}  // namespace lockstep

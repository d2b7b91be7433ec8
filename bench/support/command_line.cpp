#include "bench/support/command_line.hpp"

#include <CLI/CLI.hpp>

#include "common/error.hpp"
#include "common/text/option_words.hpp"

namespace lockstep {

struct CommandLine::Parser {
  Parser(const std::string& program, const std::string& description) : app(description, program) {}
  CLI::App app;
};

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : parser_(std::make_unique<Parser>(program, description)) {}
CommandLine::~CommandLine() = default;

void CommandLine::add(const std::string& name, std::string& value, const std::string& help) {
  parser_->app.add_option(name, value, help)->capture_default_str();
}
void CommandLine::add(const std::string& name, int& value, const std::string& help) {
  parser_->app.add_option(name, value, help)->capture_default_str();
}
void CommandLine::add(const std::string& name, double& value, const std::string& help) {
  parser_->app.add_option(name, value, help)->capture_default_str();
}
void CommandLine::add(const std::string& name, bool& value, const std::string& help) {
  parser_->app.add_flag(name, value, help);
}
void CommandLine::add(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  parser_->app.add_option(name, values, help)->delimiter(',')->capture_default_str();
}

bool CommandLine::parse(int argc, char** argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(Verdict::usage, in_our_words(parser_->app, error, parser_->app.remaining()));
  }
  return true;
}

std::string CommandLine::help() const { return parser_->app.help(); }

}  // namespace lockstep

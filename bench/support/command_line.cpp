#include "bench/support/command_line.hpp"

#include <CLI/CLI.hpp>

#include "common/error.hpp"
#include "common/text/nearest.hpp"

namespace lockstep {

struct CommandLine::Parser {
  Parser(const std::string& program, const std::string& description) : app(description, program) {}
  CLI::App app;
  std::vector<std::string> names;
};

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : parser_(std::make_unique<Parser>(program, description)) {}
CommandLine::~CommandLine() = default;

void CommandLine::add(const std::string& name, std::string& value, const std::string& help) {
  parser_->app.add_option(name, value, help)->capture_default_str();
  parser_->names.push_back(name);
}
void CommandLine::add(const std::string& name, int& value, const std::string& help) {
  parser_->app.add_option(name, value, help)->capture_default_str();
  parser_->names.push_back(name);
}
void CommandLine::add(const std::string& name, double& value, const std::string& help) {
  parser_->app.add_option(name, value, help)->capture_default_str();
  parser_->names.push_back(name);
}
void CommandLine::add(const std::string& name, bool& value, const std::string& help) {
  parser_->app.add_flag(name, value, help);
  parser_->names.push_back(name);
}
void CommandLine::add(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  parser_->app.add_option(name, values, help)->delimiter(',')->capture_default_str();
  parser_->names.push_back(name);
}

bool CommandLine::parse(int argc, char** argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ExtrasError&) {
    for (const std::string& extra : parser_->app.remaining())
      if (extra.starts_with("-"))
        throw Error(Verdict::usage, unknown_name("option", extra.substr(0, extra.find('=')), parser_->names));
    throw Error(Verdict::usage, "'" + parser_->app.remaining().front() + "' belongs to no option; --help lists them.");
  } catch (const CLI::ParseError& error) {
    throw Error(Verdict::usage, error.what());
  }
  return true;
}

std::string CommandLine::help() const { return parser_->app.help(); }

}  // namespace lockstep

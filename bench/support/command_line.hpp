// The command line of a program, without the cost of including CLI11 everywhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();

  /// "--name VALUE", or for bool the flag "--name"; the variable's value when parsing is the default and shown in
  /// --help.
  void add(const std::string& name, std::string& value, const std::string& help);
  void add(const std::string& name, int& value, const std::string& help);
  void add(const std::string& name, double& value, const std::string& help);
  void add(const std::string& name, bool& value, const std::string& help);
  /// Values separated by commas.
  void add(const std::string& name, std::vector<std::string>& values, const std::string& help);

  /// Throws Error(usage) in one sentence; an unknown option is answered with the nearest known one. True when the
  /// program shall go on, false when --help was asked for: `help()` then says it.
  bool parse(int argc, char** argv);
  std::string help() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace lockstep

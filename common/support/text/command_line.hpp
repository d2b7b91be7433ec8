// The command line of a program, without the cost of including CLI11 everywhere.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The whole numbers that an option may be. A default outside of them means "by itself": --help does not show it.
struct Whole {
  long least = 0;
  long most = 1'000'000'000;
};

/// The numbers that an option may be; never infinite, never NaN.
struct Real {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
};

class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();

  /// What is added from here on is listed under this title.
  void group(const std::string& title);

  /// "--name VALUE", which is not empty, or for bool the flag "--name"; several names with commas. The variable's value
  /// when parsing is the default and shown in --help.
  void add(const std::string& names, std::string& value, const std::string& help);
  void add(const std::string& names, int& value, const std::string& help);
  void add(const std::string& names, double& value, const std::string& help, Real range = {});
  void add(const std::string& names, bool& value, const std::string& help);
  void add(const std::string& names, int& value, const std::string& help, Whole range);
  void add(const std::string& names, std::size_t& value, const std::string& help, Whole range);
  void add(const std::string& names, std::optional<double>& value, const std::string& help, Real range = {});
  /// Values separated by commas.
  void add(const std::string& names, std::vector<std::string>& values, const std::string& help);
  /// parse() throws Error(usage) where `name` is given beside one of `others`, which it would make useless.
  void exclude(const std::string& name, const std::vector<std::string>& others);
  /// A file of these options, a line each, without their dashes: steps = 100. The command line goes before it.
  void add_config(const std::string& name, const std::string& help);

  /// Throws Error(usage) in one sentence; an unknown option is answered with the nearest known one. True when the
  /// program shall go on, false when --help was asked for: `help()` then says it.
  bool parse(int argc, char** argv);
  std::string help() const;
  /// Whether the command line or the file had this option.
  bool given(const std::string& name) const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace lockstep

// The command line of a program, without the cost of including CLI11 everywhere.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Range of an option that is a whole number. A default outside of it means "automatic" and is not shown in --help.
struct Whole {
  long least = 0;
  long most = 1'000'000'000;
};

/// Range of an option that is a number; never infinite, never NaN.
struct Real {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
};

class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();

  /// Lists the options that are added from here on under this title.
  void group(const std::string& title);

  /// Adds "--name VALUE", which must not be empty, or for bool the flag "--name"; several names are separated by
  /// commas. The variable's value when parsing is the default and is shown in --help.
  void add(const std::string& names, std::string& value, const std::string& help);
  void add(const std::string& names, int& value, const std::string& help);
  void add(const std::string& names, double& value, const std::string& help, Real range = {});
  void add(const std::string& names, bool& value, const std::string& help);
  void add(const std::string& names, int& value, const std::string& help, Whole range);
  void add(const std::string& names, std::size_t& value, const std::string& help, Whole range);
  void add(const std::string& names, std::optional<double>& value, const std::string& help, Real range = {});
  /// Values separated by commas.
  void add(const std::string& names, std::vector<std::string>& values, const std::string& help);
  /// Makes parse() throw Error(usage) if `name` is given together with one of `others`, which would make it useless.
  void exclude(const std::string& name, const std::vector<std::string>& others);
  /// Adds an option for a file of options, one per line, without their dashes: steps = 100. The command line takes
  /// precedence over it.
  void add_config(const std::string& name, const std::string& help);

  /// Throws Error(usage) with one sentence; for an unknown option it suggests the nearest known one. Returns true if
  /// the program should continue; false if --help was given, whose text is printed if it `prints`.
  bool parse(int argc, char** argv, bool prints = true);
  /// True if the command line or the file had this option.
  bool given(const std::string& name) const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace lockstep

// The command line that reproduces a file of results.
#pragma once

#include <string>

namespace lockstep {

/// Returns an argument, and only the name of a file elsewhere: this computer's folders mean nothing to others.
inline std::string without_place(const std::string& argument) {
  const std::size_t value = argument.starts_with('-') ? argument.find('=') + 1 : 0;  // npos + 1 is 0
  return argument[value] == '/' ? argument.substr(0, value) + argument.substr(argument.rfind('/') + 1) : argument;
}

/// Returns the command to type: `command` ("./lab pipeline") and these arguments, without the files that it wrote.
inline std::string repeatable(const std::string& command, int argc, char** argv) {
  std::string text = command;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i], option = argument.substr(0, argument.find('='));
    if (option != "--json" && option != "--csv" && option != "--output" && option != "--plot" && option != "--trace")
      text += " " + without_place(argument);
    else if (option == argument)
      ++i;  // its value
  }
  return text;
}

}  // namespace lockstep

// playground: answers the page's questions natively, one of a line, as the page must answer them; and makes what the
// page has of data: models, GPUs, links and programs.
//
//   echo 'pipeline?p=4&m=8&v=2&f=1&b=1&w=1&hop=0' | playground
//   playground --data
//   playground --pieces          a table for tabled.cpp
#include <cstdio>
#include <iostream>
#include <string>

#include "common/support/text/run_program.hpp"
#include "tools/calculators/playground/answer.hpp"
#include "tools/calculators/playground/data.hpp"
#include "tools/calculators/playground/planned.hpp"

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_program("playground: ", [&] {
    if (argc == 2 && std::string_view(argv[1]) == "--data") {
      fmt::print("{}\n", playground::data());
      return 0;
    }
    if (argc == 2 && std::string_view(argv[1]) == "--pieces") {
      fmt::print("{}\n", playground::write_pieces_table());
      return 0;
    }
    for (std::string line; std::getline(std::cin, line);)
      fmt::print("{}\n", line.starts_with("cluster?") ? playground::answer(line, playground::kClusterViews)
                                                      : playground::answer(line, playground::kViews));
    return 0;
  });
}

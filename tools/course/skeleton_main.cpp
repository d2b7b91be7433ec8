// skeleton SOLUTION OUT: writes the skeleton of a solution.
// skeleton --stub EXERCISE SOURCE LOG SOLUTION OUT: writes the stub that stands in for SOURCE, which failed to compile
// with the compiler's output LOG; says the first error on standard error.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/course/compiler_error.hpp"
#include "tools/course/skeleton.hpp"

namespace {

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::filesystem::path& file, const std::string& text) {
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

void run(const std::vector<std::string>& arguments) {
  using namespace lockstep::tools;
  if (arguments.size() == 2) {
    write(arguments[1], skeleton(read(arguments[0]), arguments[0]));
  } else if (arguments.size() == 6 && arguments[0] == "--stub") {
    std::string why = explain(read(arguments[3]), arguments[2]);
    std::fprintf(stderr, "%s does not compile: %s\n", arguments[1].c_str(), why.c_str());
    write(arguments[5], stub(read(arguments[4]), arguments[4], arguments[1], why));
  } else {
    throw std::runtime_error("usage: skeleton SOLUTION OUT, or skeleton --stub EXERCISE SOURCE LOG SOLUTION OUT");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}

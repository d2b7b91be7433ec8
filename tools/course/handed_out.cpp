#include "tools/course/handed_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "common/support/text/fnv.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/cpp_tokens.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const fs::path& file) { return fmt::format("{:016x}", Fnv1a(read_text(file)).value()); }

/// The text between the quotes of each #include "…".
std::vector<std::string> quoted_includes(const std::string& text) {
  std::vector<std::string> names;
  Scanner scanner(text);
  for (Token token = scanner.next(); token.kind != Token::Kind::end; token = scanner.next()) {
    if (!token.directive || token.text != "include") continue;
    if (const std::string name = scanner.header_name(); name.starts_with('"'))
      names.push_back(name.substr(1, name.size() - 2));
  }
  return names;
}

}  // namespace

std::string list_handed_out(const fs::path& tree) {
  std::vector<std::string> lines;
  for (const char* top : {"common", "labs"})
    for (const auto& entry : fs::recursive_directory_iterator(tree / top)) {
      const fs::path& file = entry.path();
      const bool listed = file.extension() == ".hpp" || file.stem().string().ends_with("_test");
      if (listed && entry.is_regular_file())
        lines.push_back(fmt::format("{} {}\n", hash_of(file), file.lexically_relative(tree).string()));
    }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

HandedOut::HandedOut(const Paths& paths) : paths_(paths), handout_(is_handout(paths)) {
  if (handout_) {
    std::istringstream list(read_text(paths.source / "prebuilt" / "handed_out.txt"));
    for (std::string hash, file; list >> hash && list.get() && std::getline(list, file);) hashes_[file] = hash;
    return;
  }
  if (find_program("git").empty() || !fs::exists(paths.source / ".git")) return;
  std::map<std::string, State> states;
  Command status{.arguments = {"git", "--no-optional-locks", "-c", "core.quotePath=false", "status", "--porcelain",
                               "--untracked-files=all", "--", "common", "labs"},
                 .folder = paths.source,
                 .on_line = {}};
  status.on_line = [&](std::string_view line) {  // "?? a.hpp", "A  a.hpp" (added), " M a.hpp"
    if (line.size() < 4) return;
    states[std::string(line.substr(3))] = line[0] == '?' || line[0] == 'A' ? State::own : State::changed;
  };
  if (run_command(status).ok()) states_ = std::move(states);  // git refuses another user's repository
}

HandedOut::State HandedOut::state_of(const std::string& path) const {
  if (!handout_) {
    const auto found = states_.find(path);
    return found == states_.end() ? State::original : found->second;
  }
  if (hashes_.empty()) return State::original;  // a handout that has no list
  const auto found = hashes_.find(path);
  if (found == hashes_.end()) return State::own;
  return found->second == hash_of(paths_.source / path) ? State::original : State::changed;
}

std::vector<std::string> HandedOut::differences(const Exercise& exercise) const {
  const fs::path answer = paths_.answer(exercise), beside = fs::path("labs") / exercise.folder;
  const fs::path test = beside / (exercise.name + "_test.cpp");
  if (state_of(test.string()) == State::own) return {};  // a new exercise, not yet committed
  std::vector<std::string> found;
  const auto look_at = [&](const fs::path& path) {
    const State state = state_of(path.string());
    std::string words;
    if (state == State::own) words = fmt::format("includes {}, which is not handed in", path.filename().string());
    if (state == State::changed)
      words = fmt::format("{} differs from {}; grading uses the original", path.filename().string(),
                          handout_ ? "the handout's" : "its commit");
    if (!words.empty() && std::find(found.begin(), found.end(), words) == found.end()) found.push_back(words);
  };
  for (const std::string& name : quoted_includes(read_text(answer)))
    for (const fs::path& path : {beside / name, fs::path(name)})
      if (fs::is_regular_file(paths_.source / path)) {
        look_at(path.lexically_normal());
        break;
      }
  look_at(test);
  return found;
}

}  // namespace lockstep::tools

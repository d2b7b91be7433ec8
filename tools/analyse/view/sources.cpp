#include "tools/analyse/view/sources.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <vector>

#include "common/support/text/parse_number.hpp"
#include "tools/analyse/view/json_text.hpp"

namespace lockstep::view {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNeighbours = 4, kMostPlaces = 400;

struct Place {
  std::string file, function;
  std::size_t line = 0;  // from 1
};

/// "ring_all_reduce.cpp:31 (ring_reduce_scatter)".
std::optional<Place> place_of(const std::string& text) {
  const std::size_t open = text.find(" ("), colon = text.rfind(':', open);
  if (open == text.npos || colon == text.npos || !text.ends_with(')')) return std::nullopt;
  const auto line = parse_number<std::size_t>(text.substr(colon + 1, open - colon - 1));
  if (!line || *line == 0) return std::nullopt;
  return Place{text.substr(0, colon), text.substr(open + 2, text.size() - open - 3), *line};
}

class Sources {
 public:
  explicit Sources(const SourceOptions& options) : root_(options.root) {
    std::vector<const char*> folders{"solutions", "labs", "common", "tools", "bench"};
    if (options.code.starts_with("yours")) std::swap(folders[0], folders[1]);
    for (const char* folder : folders) add_folder(root_.empty() ? fs::path() : root_ / folder);
  }

  /// The file that `place` means, relative to the root; nothing if there is none.
  const std::string* find(const Place& place) {
    const auto known = files_.find(place.file);
    if (known == files_.end()) return nullptr;
    const auto fits = [&](const std::string& path) { return has(path, place); };
    const auto found = std::find_if(known->second.begin(), known->second.end(), fits);
    return found == known->second.end() ? nullptr : &*found;
  }

  const std::vector<std::string>& lines(const std::string& path) {
    const auto [known, fresh] = lines_.try_emplace(path);
    if (!fresh) return known->second;
    std::ifstream in(root_ / path);
    for (std::string line; std::getline(in, line);) known->second.push_back(line);
    return known->second;
  }

 private:
  void add_folder(const fs::path& folder) {
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(folder, none))
      if (const std::string kind = entry.path().extension(); kind == ".cpp" || kind == ".hpp")
        files_[entry.path().filename()].push_back(entry.path().lexically_relative(root_));
  }

  /// There is such a line, not an empty one, and the function's name at or above it.
  bool has(const std::string& path, const Place& place) {
    const std::vector<std::string>& all = lines(path);
    if (place.line > all.size() || all[place.line - 1].find_first_not_of(" \t\r{}") == std::string::npos) return false;
    const std::string name = place.function.starts_with("<lambda") ? "[" : place.function;
    return std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(place.line),
                       [&](const std::string& line) { return line.find(name) != line.npos; });
  }

  fs::path root_;
  std::map<std::string, std::vector<std::string>> files_;  // paths, by name
  std::map<std::string, std::vector<std::string>> lines_;  // by path
};

}  // namespace

std::string sources_json(const std::set<std::string>& places, const SourceOptions& options) {
  Sources sources(options);
  std::vector<std::string> found;
  std::map<std::string, std::set<std::size_t>> shown;  // lines, by path
  for (const std::string& text_of_place : places) {
    const std::optional<Place> place = place_of(text_of_place);
    const std::string* path = place && found.size() < kMostPlaces ? sources.find(*place) : nullptr;
    if (!path || path->starts_with("solutions/")) continue;  // a page is passed on, an answer should not be
    found.push_back(fmt::format("{}:[{},{}]", text(text_of_place), text(*path), place->line));
    const std::size_t last = std::min(place->line + kNeighbours, sources.lines(*path).size());
    for (std::size_t line = place->line - std::min(place->line - 1, kNeighbours); line <= last; ++line)
      shown[*path].insert(line);
  }
  const auto excerpt = [&](const auto& file) {
    const std::string& path = file.first;
    const std::string lines =
        list(file.second, [&](std::size_t n) { return fmt::format("[{},{}]", n, text(sources.lines(path)[n - 1])); });
    return fmt::format("{}:{}", text(path), lines);
  };
  return fmt::format(R"("sources":{{{}}},"lines":{{{}}})", fmt::join(found, ","), joined(shown, excerpt));
}

}  // namespace lockstep::view

#include "tools/analyse/view/page.hpp"

#include <algorithm>
#include <filesystem>

#include "common/error.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/analyse/view/panels.hpp"
#include "tools/analyse/view/parts.hpp"

namespace lockstep::view {
namespace {

/// `place`, a comment that stands once in the page, gives way.
void put(std::string& page, const std::string& place, const std::string& instead) {
  page.replace(page.find(place), place.size(), instead);
}

std::size_t first_to_show(const std::vector<NamedTrace>& runs) {
  const auto failed = std::find_if(runs.begin(), runs.end(), [](const NamedTrace& run) {
    return !run.trace.verdict.empty() && run.trace.verdict != to_string(Verdict::pass);
  });
  if (failed != runs.end()) return static_cast<std::size_t>(failed - runs.begin());
  const auto most = std::max_element(runs.begin(), runs.end(), [](const NamedTrace& a, const NamedTrace& b) {
    return a.trace.events.size() < b.trace.events.size();
  });
  return static_cast<std::size_t>(most - runs.begin());
}

/// A run's title, with its file if several have the same title, or if the trace has none.
std::string title_among(const std::vector<NamedTrace>& runs, const NamedTrace& run) {
  const std::string& title = run.trace.title;
  const auto same =
      std::count_if(runs.begin(), runs.end(), [&](const NamedTrace& other) { return other.trace.title == title; });
  return title.empty() ? run.title : same > 1 ? fmt::format("{} ({})", title, run.title) : title;
}

}  // namespace

std::string page(const std::vector<NamedTrace>& runs, const PageOptions& options) {
  const std::size_t first = first_to_show(runs);
  const auto part = [&](const NamedTrace& run) {  // of what a page may have: the one that is shown first has half
    const std::size_t others = runs.size() - 1;
    return others == 0 ? 1.0 : options.together || &run == &runs[first] ? 0.5 : 0.5 / static_cast<double>(others);
  };
  const std::string scenes = list(runs, [&](const NamedTrace& run) {
    SceneOptions each{.title = title_among(runs, run),
                      .limit = options.limit,
                      .source = options.source,
                      .most_events = options.most_events};
    each.most_bytes = static_cast<std::size_t>(part(run) * static_cast<double>(each.most_bytes));
    return scene(run.trace, each);
  });
  std::string data =
      fmt::format(R"({{"together":{},"ghost":{},"first":{},"runs":{})", options.together, options.ghost, first, scenes);
  if (options.together) data += "," + diff_json(runs[0].trace, runs[1].trace);
  std::string html = kHtml;
  put(html, "/*STYLE*/", kCss);
  put(html, "/*SCRIPT*/", std::string(kData) + kDraw + kPanels + kSave + kPlay);
  put(html, "/*DATA*/", data + "}");
  return html;
}

std::string title_of(const std::string& path) {
  std::string title = std::filesystem::path(path).stem().string();
  return title.starts_with("trace-") ? title.substr(6) : title;
}

}  // namespace lockstep::view

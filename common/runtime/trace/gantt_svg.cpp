// Writes a trace as a self-contained SVG Gantt chart: patterns as well as colours, a legend, and a title and
// description for readers who cannot see it. Hovering over a bar shows what it is. Equal traces give identical bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "common/runtime/trace/layout.hpp"
#include "common/runtime/trace/shades.hpp"
#include "common/support/text/fnv.hpp"
#include "common/support/text/units.hpp"

namespace lockstep {
namespace {

using Kind = TraceEvent::Kind;

constexpr double kWidth = 1200, kLeft = 120, kRight = 24, kTop = 64;
constexpr double kRegionHeight = 14, kBarHeight = 20, kTransferHeight = 7, kGap = 5, kRankGap = 8;
constexpr std::size_t kTransferLanes = 4;  // further lanes are drawn over the last one
constexpr double kCharacter = 6;           // approximate width of a character of the labels

/// Text for an SVG element or attribute.
std::string escaped(std::string_view text) {
  std::string result;
  for (char letter : text) {
    switch (letter) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += letter;
    }
  }
  return result;
}

/// `text` shortened to fit `width`, with an ellipsis; "" if almost nothing would remain.
std::string fitted(const std::string& text, double width) {
  auto letters = static_cast<std::size_t>(std::max(0.0, (width - 4) / kCharacter));
  if (text.size() <= letters) return text;
  if (letters < 4) return "";
  std::size_t cut = letters - 1;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // never inside a UTF-8 character
  return text.substr(0, cut) + "…";
}

std::string describe_event(const TraceEvent& event) {
  std::string place = event.where.empty() ? "" : fmt::format(" at {}", event.where);
  return fmt::format("{}: {} to {} ({}){}", event.name, format_seconds(event.begin), format_seconds(event.end),
                     format_seconds(event.end - event.begin), place);
}

/// Distance between time marks: 1, 2 or 5 times a power of ten, chosen for about eight marks.
double nice_step(double length) {
  double power = std::pow(10, std::floor(std::log10(length / 8)));
  for (double factor : {1.0, 2.0, 5.0})
    if (length / (factor * power) <= 10) return factor * power;
  return 10 * power;
}

struct Unit {
  double size;
  const char* name;
};
Unit unit_of(double seconds) {
  if (seconds < 1e-6) return {1e-9, "ns"};
  if (seconds < 1e-3) return {1e-6, "µs"};
  if (seconds < 1) return {1e-3, "ms"};
  return {1, "s"};
}

/// Stripes of all shades but the first: angle, its description, background and line colour.
struct Stripes {
  int angle;
  const char* word;
  const char* ground;
  const char* line;
};
constexpr Stripes kStripes[] = {
    {90, "level", "#b2506a", "#7d2f45"}, {45, "rising", "#0b7a5c", "#05543f"}, {-45, "falling", "#6a51a3", "#3f2b70"}};

class Chart {
 public:
  Chart(const Trace& trace, std::ostream& out, const std::string& title, const std::vector<Shade>& shades)
      : out_(out), title_(title), rows_(trace_rows(trace)), span_(time_span(trace)) {
    std::copy_if(shades.begin(), shades.end(), std::back_inserter(shades_),
                 [](const Shade& s) { return s.arithmetic; });
    Fnv1a hash;  // ids must be unique among the charts on one page
    hash.add(title + std::to_string(trace.events.size()));
    id_ = fmt::format("gantt{:08x}", hash.value() & 0xffffffff);
    if (span_.length() <= 0) span_.end = span_.begin + 1e-9;
  }

  void write() {
    double bottom = kTop;
    std::vector<double> tops;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (i > 0 && rows_[i].rank != rows_[i - 1].rank) bottom += kRankGap;
      tops.push_back(bottom);
      bottom += height(rows_[i]) + kGap;
    }
    head(bottom + 34);
    legend();
    axis(bottom);
    for (std::size_t i = 0; i < rows_.size(); ++i) row(rows_[i], tops[i], i == 0 || rows_[i].rank != rows_[i - 1].rank);
    out_ << "</svg>\n";
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    out_ << fmt::format(format, std::forward<Arguments>(arguments)...);
  }

  double x(double seconds) const {
    return kLeft + (seconds - span_.begin) / span_.length() * (kWidth - kLeft - kRight);
  }

  static double height(const TraceRow& row) {
    double regions = static_cast<double>(lanes(row.regions, false).size()) * kRegionHeight;
    double transfers = static_cast<double>(std::min(kTransferLanes, lanes(row.transfers, false).size()));
    return regions + (row.work.empty() ? 0 : kBarHeight) + transfers * kTransferHeight;
  }

  void head(double height) {
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" height=\"{1:.0f}\" "
        "role=\"img\" aria-labelledby=\"{2}-title {2}-desc\" font-family=\"system-ui, sans-serif\" font-size=\"11\">\n",
        kWidth, height, id_);
    add("<title id=\"{}-title\">{}</title>\n<desc id=\"{}-desc\">{}</desc>\n", id_, escaped(title_), id_,
        escaped(summary()));
    add("<defs>\n"
        "<pattern id=\"{0}-wait\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#f4f4f4\"/>"
        "<rect width=\"2\" height=\"6\" fill=\"#9a9a9a\"/></pattern>\n"
        "<pattern id=\"{0}-transfer\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">"
        "<rect width=\"5\" height=\"5\" fill=\"#e69f00\"/><circle cx=\"2.5\" cy=\"2.5\" r=\"1.2\" fill=\"#5c3d00\"/>"
        "</pattern>\n{1}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        id_, stripes());
    add("<text x=\"{}\" y=\"20\" font-size=\"15\" font-weight=\"600\" fill=\"#1a1a1a\">{}</text>\n", kLeft,
        escaped(title_));
  }

  static const Stripes& stripes_of(std::size_t shade) { return kStripes[std::min(shade - 1, std::size(kStripes) - 1)]; }

  std::string stripes() const {
    std::string patterns;
    for (std::size_t i = 1; i < shades_.size(); ++i) {
      const Stripes& stripes = stripes_of(i);
      patterns += fmt::format(
          "<pattern id=\"{}-shade{}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate({})\"><rect width=\"8\" height=\"8\" fill=\"{}\"/>"
          "<rect width=\"2\" height=\"8\" fill=\"{}\"/></pattern>\n",
          id_, i, stripes.angle, stripes.ground, stripes.line);
    }
    return patterns;
  }

  /// Description of the picture in words: the shares of each row.
  std::string summary() const {
    std::string text =
        fmt::format("Gantt chart from {} to {}.", format_seconds(span_.begin), format_seconds(span_.end));
    for (const TraceRow& row : rows_) text += fmt::format(" {}.", shares(row));
    return text;
  }

  std::string shares(const TraceRow& row) const {
    auto percent = [&](const std::vector<const TraceEvent*>& events, Kind kind) {
      return 100 * covered(events, kind) / span_.length();
    };
    return fmt::format("Rank {} {}: computing {:.1f} %, waiting {:.1f} %, transferring {:.1f} %", row.rank,
                       row.queue_name, percent(row.work, Kind::compute), percent(row.work, Kind::wait),
                       percent(row.transfers, Kind::transfer));
  }

  std::string fill(const TraceEvent& event) const {
    for (std::size_t i = 1; i < shades_.size() && event.kind == Kind::compute; ++i)
      if (event.name.starts_with(shades_[i].prefix)) return fmt::format("url(#{}-shade{})", id_, i);
    return fill(event.kind);
  }
  std::string fill(Kind kind) const {
    switch (kind) {
      case Kind::compute: return "#0072b2";
      case Kind::wait: return fmt::format("url(#{}-wait)", id_);
      case Kind::transfer: return fmt::format("url(#{}-transfer)", id_);
      case Kind::region: return "#e8f3ec";
    }
    return "none";
  }

  void legend() {
    std::vector<std::pair<std::string, std::string>> marks;  // fill, and its meaning
    if (shades_.empty()) marks.emplace_back(fill(Kind::compute), "arithmetic (plain)");
    for (std::size_t i = 0; i < shades_.size(); ++i)
      marks.emplace_back(
          i == 0 ? fill(Kind::compute) : fmt::format("url(#{}-shade{})", id_, i),
          fmt::format("{} {} ({})", shades_[i].name, shades_[i].prefix, i == 0 ? "plain" : stripes_of(i).word));
    marks.emplace_back(fill(Kind::wait), "waiting (hatched)");
    marks.emplace_back(fill(Kind::transfer), "bytes moving (dotted)");
    if (shades_.empty()) marks.emplace_back(fill(Kind::region), "region (outlined)");
    double at = kLeft;
    for (const auto& [filling, name] : marks) {
      add("<rect x=\"{}\" y=\"32\" width=\"22\" height=\"12\" fill=\"{}\" stroke=\"#444\" stroke-width=\"0.6\"/>"
          "<text x=\"{}\" y=\"42\" fill=\"#333\">{}</text>\n",
          at, filling, at + 28, escaped(name));
      at += 190;
    }
  }

  void axis(double bottom) {
    Unit unit = unit_of(span_.end);
    double step = nice_step(span_.length());
    for (double k = std::ceil(span_.begin / step); k * step <= span_.end * (1 + 1e-12); ++k) {
      add("<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
          "<text x=\"{0:.2f}\" y=\"{3:.1f}\" text-anchor=\"middle\" fill=\"#333\">{4:g} {5}</text>\n",
          x(k * step), kTop - 6, bottom, bottom + 16, std::round(k * step / unit.size * 1e6) / 1e6, unit.name);
    }
  }

  void row(const TraceRow& row, double top, bool first_of_rank) {
    auto regions = lanes(row.regions, false), transfers = lanes(row.transfers, false);
    double bar = top + static_cast<double>(regions.size()) * kRegionHeight;
    if (first_of_rank)
      add("<text x=\"8\" y=\"{:.1f}\" font-weight=\"600\" fill=\"#1a1a1a\">rank {}</text>\n", bar + 14, row.rank);
    add("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#333\">{}<title>{}</title></text>\n", kLeft - 8,
        bar + 14, escaped(fitted(row.queue_name, 60)), escaped(shares(row)));
    for (std::size_t lane = 0; lane < regions.size(); ++lane)
      bars(regions[lane], top + static_cast<double>(lane) * kRegionHeight, kRegionHeight - 2, "#1a1a1a");
    bars(row.work, bar, kBarHeight, "#ffffff");
    double strip = bar + (row.work.empty() ? 0 : kBarHeight);
    for (std::size_t lane = 0; lane < transfers.size(); ++lane)
      bars(transfers[lane], strip + static_cast<double>(std::min(lane, kTransferLanes - 1)) * kTransferHeight,
           kTransferHeight, "");
  }

  /// Bars of one line. Adjacent bars of one kind that are too thin to tell apart are merged, so that a chart of a
  /// million events stays small.
  void bars(const std::vector<const TraceEvent*>& events, double y, double height, const char* ink) {
    constexpr double kThin = 0.5;  // pixels
    for (std::size_t i = 0; i < events.size();) {
      const TraceEvent& first = *events[i];
      double left = x(first.begin), right = x(first.end);
      std::size_t next = i + 1;
      for (; next < events.size() && right - left < 8 * kThin; ++next) {
        const TraceEvent& event = *events[next];
        bool thin = x(event.end) - x(event.begin) < kThin && x(event.begin) - right < kThin;
        if (!thin || event.kind != first.kind) break;
        right = std::max(right, x(event.end));
      }
      bar(first, next - i, left, right, y, height, ink);
      i = next;
    }
  }

  void bar(const TraceEvent& event, std::size_t count, double left, double right, double y, double height,
           const char* ink) {
    double width = std::max(right - left, 0.3);
    std::string what =
        count == 1 ? describe_event(event) : fmt::format("{} short events from {}", count, describe_event(event));
    add("<g><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"{}/>", left, y, width, height,
        fill(event), width > 2 ? " stroke=\"#333\" stroke-width=\"0.5\"" : "");
    std::string label = *ink && count == 1 && event.kind != Kind::wait ? fitted(event.name, width) : "";
    if (!label.empty())
      add("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"10\" fill=\"{}\">{}</text>",
          left + width / 2, y + height / 2 + 3.5, ink, escaped(label));
    add("<title>{}</title></g>\n", escaped(what));
  }

  std::ostream& out_;
  std::string title_;
  std::vector<Shade> shades_;
  std::string id_;
  std::vector<TraceRow> rows_;
  TimeSpan span_;
};

}  // namespace

void write_gantt_svg(const Trace& trace, std::ostream& out, const std::string& title) {
  Chart(trace, out, title, {}).write();
}

void write_gantt_svg(const Trace& trace, std::ostream& out, const std::string& title,
                     const std::vector<Shade>& shades) {
  Chart(trace, out, title, shades).write();
}

}  // namespace lockstep

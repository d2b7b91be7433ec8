#include "tools/grade/html.hpp"

#include <fmt/format.h>

#include "common/support/json/escape.hpp"

namespace lockstep::tools {
namespace {

// A script that slips through is not run, and loads nothing.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #d0d4da; --soft: #667; --good: #1a7f37; --bad: #b42318; --open: #8a6100;
  --bar: #3b6fb6; --head: #f3f5f8; }
@media (prefers-color-scheme: dark) { :root { --line: #3a4048; --soft: #9aa3ad; --good: #57c774; --bad: #ff8b80;
  --open: #e0b34c; --bar: #7aa7e6; --head: #1c2127; } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 1.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; } th, td { border: 1px solid var(--line); padding: .2rem .45rem; text-align: left;
  vertical-align: top; } th { background: var(--head); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); } .soft { color: var(--soft); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--head); padding: .5rem .7rem; margin: .4rem 0; }
td:first-child { min-width: 9rem; } bdi, td { overflow-wrap: anywhere; } td.long { min-width: 14rem; }
td.mid { min-width: 8rem; } td.id { min-width: 0; white-space: nowrap; } td.title { min-width: 6rem; }
td.whole { overflow-wrap: normal; }
td bdi { display: inline-block; max-width: min(18rem, 45vw); overflow-wrap: break-word; }
a bdi { text-decoration: underline; }
details { margin-top: .3rem; }
td.n { overflow-wrap: normal; white-space: nowrap; }
svg text { fill: currentColor; font: 12px system-ui, sans-serif; } svg rect { fill: var(--bar); }
@media print { :root { color-scheme: light; --line: #999; --head: #fff; --soft: #333; --good: #000; --bad: #000;
  --open: #000; } body { max-width: none; font-size: 10pt; margin: 0; } .wide { overflow: visible; }
  .wide table { font-size: 9pt; } .wide th, .wide td { padding: .1rem .2rem; } tr, svg { break-inside: avoid; }
  td:first-child { min-width: 6rem; } td.long, td.mid { min-width: 0; } h2 { break-after: avoid; } }
)";

}  // namespace

std::string for_html(std::string_view text) {
  std::string result;
  for (const char c : utf8(text)) {
    const bool control = (static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t') || c == 127;
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: control ? result += "\uFFFD" : result += c;
    }
  }
  return result;
}

std::string name_in_html(std::string_view name) { return fmt::format("<bdi>{}</bdi>", for_html(name)); }

std::string html_page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      kPolicy, for_html(title), kStyle, body);
}

std::string for_url(std::string_view file) {
  std::string result;
  for (const char c : file) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

}  // namespace lockstep::tools

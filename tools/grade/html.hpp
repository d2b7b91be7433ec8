// Pages that stand alone: no script, no address of anything else, light and dark, fit for printing.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::tools {

/// Escapes text for an element, or for an attribute's value in quotes, of HTML or XML: whatever it is, it is shown and
/// nothing else. XML has no control characters but tab and line ends.
std::string for_html(std::string_view text);
/// A name that somebody chose: its letters may run from right to left, but nothing next to them.
std::string name_in_html(std::string_view name);
/// A whole page; `body` is HTML, `title` is not.
std::string html_page(std::string_view title, std::string_view body);
/// A name of a file as an address.
std::string for_url(std::string_view file);

}  // namespace lockstep::tools

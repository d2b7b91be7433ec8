// Text in columns: measuring, truncating and wrapping to a column's or the terminal's width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Number of characters (UTF-8); each takes one column.
std::size_t columns_of(std::string_view text);

/// Width of the terminal behind a file descriptor; 80 if it is unknown or not a terminal.
std::size_t terminal_columns(int descriptor);

/// Pads `text` with blanks to `columns`, or truncates it, with "…" in the last column.
std::string fitted(std::string_view text, std::size_t columns);

/// Breaks a text between words into lines of at most `columns`; a longer word gets a line of its own. Returns at least
/// one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

/// Breaks the lines of a text that are too long between words, and indents what follows a little more than the line
/// itself. A line with a table's gaps or with a ./lab command stays whole: it is for copying.
std::string wrapped_lines(std::string_view text, std::size_t columns);

/// A part of a line, and its importance.
struct LinePart {
  std::string text;
  int matters = 0;
};
/// Joins the parts in order, separated by two blanks, into at most `columns`. Omits the least important ones first, and
/// truncates a part that is too long on its own.
std::string line_of(std::vector<LinePart> parts, std::size_t columns);

}  // namespace lockstep

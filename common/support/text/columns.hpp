// Text in columns: what is wider than its column, or than the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Characters (UTF-8), each of which takes a column.
std::size_t columns_of(std::string_view text);

/// Of the terminal behind a file descriptor; 80 where it does not say, or is none.
std::size_t terminal_columns(int descriptor);

/// `text` filled up with blanks to `columns`, or cut there, with "…" in its last column.
std::string fitted(std::string_view text, std::size_t columns);

/// Lines of at most `columns`, broken between words; a longer word has a line of its own. At least one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

/// A part of a line, and how much it matters.
struct LinePart {
  std::string text;
  int matters = 0;
};
/// The parts in their order, two blanks between them, in at most `columns`: those that matter least are left out first.
/// What alone is too long is cut.
std::string line_of(std::vector<LinePart> parts, std::size_t columns);

}  // namespace lockstep

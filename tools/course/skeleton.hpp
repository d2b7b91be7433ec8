// Makes skeletons and stubs from solutions. Regions of a solution look like this:
//
//   // lab 21.2a begin: pass chunks round the ring and add what arrives
//   // (comment lines directly below continue it)
//   …the answer…
//   // lab end
//
// A hard skeleton also lacks everything between "// lab omit begin" and "// lab omit end".
//
// In the skeleton regions become todo("21.2a", "pass chunks …"). In a stub, which replaces a file that does not
// compile, they become a throw that shows why.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep::tools {

/// One region of a solution.
struct Region {
  std::string indent;  ///< of the line that begins it
  std::string id;      ///< "21.2a"
  std::string what;    ///< the rest of that line and the comment lines below it, joined
  std::string answer;  ///< the lines that follow, up to its end
};

/// `solution` with each region replaced by replace(region), everything else as it is. Throws std::runtime_error that
/// names `file` and the line of a region that is malformed, nested or never ends.
std::string replace_regions(std::string_view solution, std::string_view file,
                            const std::function<std::string(const Region&)>& replace);

/// The skeleton of `solution`.
std::string skeleton(std::string_view solution, std::string_view file);

/// `solution` without its answers: the regions' marks stand, and nothing between them. Its skeleton is the same.
std::string without_answers(std::string_view solution, std::string_view file);

/// A stub of `solution` for `exercise`: every answer throws DOES NOT COMPILE with `explanation`.
std::string stub(std::string_view solution, std::string_view file, std::string_view exercise,
                 std::string_view explanation);

}  // namespace lockstep::tools

// A look at an answer's text before it is compiled, for what no compiler forbids: the assembler's words, and directives
// that change what the compiler believes to read.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::tools {

/// Why an answer is not compiled, in words; "" where its text is fine. Comments and strings may say what they like.
std::string source_refused(std::string_view text);

/// The same for the compiler's own preprocessed text of `file`, of which only the lines that come from `file` count:
/// a macro can put words together that stand nowhere in the answer.
std::string preprocessed_refused(std::string_view text, std::string_view file);

}  // namespace lockstep::tools

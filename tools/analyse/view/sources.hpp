// Lines of source code around the places that a trace names.
#pragma once

#include <set>
#include <string>

namespace lockstep::view {

struct SourceOptions {
  std::string root;  // of the source tree; "": no file is read
  std::string code;  // whose answers ran, as whose_code() says: of two files with a name, labs/ or solutions/
};

/// "sources": what each place such as "ring_all_reduce.cpp:31 (ring_reduce_scatter)" means, [path, line], and
/// "lines": by path, its line and the neighbours of it. A place whose file is not found, or in which the function is
/// not there, is left out, and so is one in a reference answer.
std::string sources_json(const std::set<std::string>& places, const SourceOptions& options);

}  // namespace lockstep::view

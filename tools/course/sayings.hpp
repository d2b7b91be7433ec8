// Messages of a test program about itself (common/testing/watch.hpp), for ./lab check.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tools {

/// Takes it out of what the program prints, line by line.
class Sayings {
 public:
  /// `on_still` hears "still running after 6 s: rank 1 last called the runtime at …" now and then; may be empty.
  Sayings(std::filesystem::path program, std::function<void(const std::string&)> on_still)
      : program_(std::move(program)), on_still_(std::move(on_still)) {}

  /// The rest of the line, or nothing where it is all of it.
  std::optional<std::string_view> take(std::string_view line);
  /// "rank 1 last called the runtime at ring_all_reduce.cpp:20 (ring_reduce_scatter)", or nothing.
  const std::string& last_call() const { return last_call_; }
  /// "with 3 ranks and 7 elements per rank", and the options that ask for that case alone; or nothing.
  const std::string& the_case() const { return case_; }
  const std::string& options() const { return options_; }
  /// Why it died, a sentence; or nothing.
  const std::string& cause() const { return cause_; }
  /// "ring_all_reduce.cpp:20 (ring_reduce_scatter)": the innermost line of `answer` among the calls that died.
  std::string place_in(const std::string& answer) const;
  /// The same in two steps: the command that reads the calls' lines out of the program, empty where it did not die, and
  /// the place in what that prints.
  std::vector<std::string> command_for_place() const;
  static std::string place_in(const std::vector<std::string>& printed, const std::string& answer);

 private:
  void hear_still(std::string_view said);
  void hear_died(std::string_view said);

  std::filesystem::path program_;
  std::function<void(const std::string&)> on_still_;
  std::string last_call_, case_, options_, cause_;
  std::vector<std::string> frames_;
  bool died_ = false;
  long next_ = 6;  // seconds of a test, from which on_still_ hears again
};

}  // namespace lockstep::tools

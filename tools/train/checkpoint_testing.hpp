// Shared by the tests of --checkpoint and --resume: layouts of ranks, and a run that is saved.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/gpt/tests/memory_files.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {

struct Layout {
  int dp = 1, tp = 1, pp = 1, zero = 0;
  const char *wrap = "block", *schedule = "1f1b";
  int shard_group = 0;
  int ranks() const { return dp * tp * pp; }
  std::string name() const {
    return fmt::format("({}, {}, {}), ZeRO-{}, {}, {}, groups of {}", dp, tp, pp, zero, wrap, schedule, shard_group);
  }
};
inline const Layout kSerial = {}, kMesh = {2, 2, 2, 1};
inline const std::vector<Layout> kLayouts = {kSerial,
                                             kMesh,
                                             {3},
                                             {1, 4, 1},
                                             {2, 2, 1},
                                             {4, 1, 2},
                                             {1, 1, 4},
                                             {2, 1, 2, 0, "block", "interleaved"},
                                             {3, 1, 1, 1},
                                             {2, 2, 1, 2, "5000"},
                                             {3, 1, 1, 3},
                                             {2, 2, 1, 3, "layer"},
                                             {4, 1, 1, 3, "block", "1f1b", 2}};

class Saved : public Folder {
 protected:
  Saved() {  // a little text, read in no time
    std::string text(20000, ' ');
    std::ifstream(std::string(LOCKSTEP_SOURCE_DIR) + "/data/austen.txt").read(text.data(), 20000);
    std::ofstream(path("text")) << text.substr(0, text.rfind(' '));
  }
  TrainRequest run_in(const Layout& layout, int steps) const;
};

inline TrainRequest Saved::run_in(const Layout& layout, int steps) const {
  TrainRequest options = small_run();
  options.data = path("text");
  options.heads = 4;
  options.batch = 8;
  options.microbatches = layout.pp > 1 ? 2 : 1;
  options.tokens = "char";  // a vocabulary that no number of ranks divides
  options.ranks = layout.ranks();
  options.tp = layout.tp;
  options.pp = layout.pp;
  options.schedule = layout.schedule;
  options.zero = layout.zero;
  options.wrap = layout.wrap;
  options.shard_group = layout.shard_group;
  options.steps = steps;
  return options;
}

/// All files below a path.
inline std::map<std::string, std::string> files_in(checkpoint::Files& files, const std::string& path) {
  std::map<std::string, std::string> all;
  for (const std::string& step : files.list(path))
    for (const std::string& name : files.list(path + "/" + step))
      all[step + "/" + name] = files.read(path + "/" + step + "/" + name);
  return all;
}

inline Trained train_with(const TrainRequest& options, checkpoint::Files& files) {
  Trained result = try_to_train(options, files);
  result.outcome.check();
  return result;
}

}  // namespace lockstep::train

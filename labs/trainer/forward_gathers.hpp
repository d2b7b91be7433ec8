// Given: gathers new values behind the next forward, for stages 1 and 2, which keep whole values on every rank.
// Megatron-LM's distributed optimizer does so with --overlap-param-gather. Exercises 22.2 and 22.3 gather before main
// continues, so nothing hides those gathers.
#pragma once

#include <vector>

#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/units.hpp"
#include "common/rank.hpp"

namespace lockstep::week25 {

/// The gathers of all engines of a rank. All functions are called on the main stream.
class ForwardGathers {
 public:
  /// Collective over `dp`, at set-up.
  explicit ForwardGathers(Rank dp) : dp_(dp), comm_(dp.stream("comm")) {}

  /// Adds an engine's units, which are parts of its flat `values`. `usage_order`: the tensors that each piece of the
  /// model uses.
  void add_engine(const Slice& values, const std::vector<Unit>& units, const UsageOrder& usage_order);

  /// Called when an engine has updated this rank's chunk of each of its units. The call for the last engine starts all
  /// gathers, on the stream "comm" and in the order in which a forward uses the units.
  void updated();
  /// Makes main wait until the values that this piece uses are gathered.
  void before_forward(std::size_t piece);
  /// Makes main wait for all gathers.
  void finish();

 private:
  struct Gather {
    Slice values;
    std::size_t first_piece = 0;
    Ticket done;
  };

  Rank dp_;
  Rank comm_;
  std::vector<Gather> gathers_;  // by the first piece that uses them
  std::size_t waited_ = 0;       // number of gathers that main has waited for
  int engines_ = 0, updated_ = 0;
};

}  // namespace lockstep::week25

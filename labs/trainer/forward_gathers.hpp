// Given: the gather of new values behind the next forward, for stages 1 and 2, whose values are whole on every rank.
// Megatron-LM's distributed optimizer does it with --overlap-param-gather: exercises 22.2 and 22.3 gather before main
// continues, so that nothing hides it.
#pragma once

#include <vector>

#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/units.hpp"
#include "common/rank.hpp"

namespace lockstep::week25 {

/// Of all engines of a rank. All calls are made on the main queue.
class ForwardGathers {
 public:
  /// Collective over `dp`, at set-up.
  explicit ForwardGathers(Rank dp) : dp_(dp), comm_(dp.stream("comm")) {}

  /// An engine's units, which are parts of its flat `values`; which of its tensors each piece of the model uses.
  void add_engine(const Slice& values, const std::vector<Unit>& units, const UsageOrder& usage_order);

  /// An engine has updated this rank's chunk of each of its units. With the last engine's all gathers begin, on the
  /// queue "comm" and in the order in which a forward uses the units.
  void updated();
  /// Main continues when the values that this piece uses are whole.
  void before_forward(std::size_t piece);
  /// … when all are.
  void finish();

 private:
  struct Gather {
    Slice values;
    std::size_t first_piece = 0;
    Ticket done;
  };

  Rank dp_;
  Rank comm_;
  std::vector<Gather> gathers_;  // by first piece
  std::size_t waited_ = 0;       // of them, main has waited for the first so many
  int engines_ = 0, updated_ = 0;
};

}  // namespace lockstep::week25

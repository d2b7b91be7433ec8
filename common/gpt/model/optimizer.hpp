// AdamW on flat slices: fp32 state (m, v, and a master copy where values are stored in 16 bits), clipping on the
// device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/gpt/model/parameters.hpp"

namespace lockstep {

/// Elements [first, first + count) of the flat slices.
struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Updates `range` of the parameters (all of them, or one rank's shard). Matrices and embeddings decay, norms and
/// biases do not. State: 8 bytes an element, 12 with 16-bit values.
class Optimizer {
 public:
  Optimizer(Rank me, const Parameters& parameters, AdamW options, std::optional<Range> range = {});

  /// One AdamW step with this learning rate. The gradient is multiplied by `gradient_factor`, and nothing changes where
  /// `skip` is not 0; `skipped` of the steps before were (each one f32 on the device, or empty). See adamw.
  void step(Rank me, float learning_rate, Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {});

  int steps() const { return steps_; }
  Slice master() const { return master_; }  ///< fp32 values; the parameters themselves where those are fp32
  Slice m() const { return m_; }
  Slice v() const { return v_; }

  /// Goes on after `steps` steps, with master, m and v as uploaded since: 16-bit values become the master rounded.
  void resume(Rank me, int steps);

 private:
  /// Runs of tensors that decay alike, in elements of the range.
  static std::vector<AdamWPiece> pieces_of(const Parameters& parameters, Range range);

  AdamW options_;
  std::vector<AdamWPiece> pieces_;
  Slice values_;
  Slice gradients_;
  Slice master_;
  Slice m_;
  Slice v_;
  int steps_ = 0;
};

/// factor[0] = what `gradients` must be multiplied by so that their norm is at most max_norm; sum[0] = their squared
/// norm. Both one f32 on the device.
void clip(Rank me, Slice factor, Slice sum, Slice gradients, float max_norm);

}  // namespace lockstep

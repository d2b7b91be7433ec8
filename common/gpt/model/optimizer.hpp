// AdamW on flat slices: fp32 state (m, v, and a master copy if values are stored in 16 bits), and clipping on the
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

/// Updates `range` of the parameters (all of them, or one rank's shard). Weight decay applies to matrices and
/// embeddings, not to norms and biases. State: 8 bytes per element, 12 with 16-bit values.
class Optimizer {
 public:
  Optimizer(Rank me, const Parameters& parameters, AdamW options, std::optional<Range> range = {},
            Location where = Location::current());

  /// Takes one AdamW step with this learning rate. Multiplies the gradient by `gradient_factor`. Changes nothing if
  /// `skip` is not 0; `skipped` is the number of steps skipped so far (each one f32 on the device, or empty). See
  /// adamw.
  void step(Rank me, float learning_rate, Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {},
            Location where = Location::current());

  int steps() const { return steps_; }
  Slice master() const { return master_; }  ///< fp32 values; the parameters themselves if those are fp32
  Slice m() const { return m_; }
  Slice v() const { return v_; }

  /// Resumes after `steps` steps. master, m and v must have been uploaded; 16-bit values are set to the rounded master.
  void resume(Rank me, int steps, Location where = Location::current());

 private:
  /// Runs of tensors with the same weight decay, in elements of the range.
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

/// factor[0] = the number that scales `gradients` to a norm of at most max_norm; sum[0] = their squared norm. Both are
/// one f32 on the device.
void clip(Rank me, Slice factor, Slice sum, Slice gradients, float max_norm, Location where = Location::current());

}  // namespace lockstep

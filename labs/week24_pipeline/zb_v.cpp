// Exercise 24.8: ZB-V. Read labs/week24_pipeline/zb_v.hpp first.
#include "labs/week24_pipeline/zb_v.hpp"

#include <array>
#include <string>

#include "common/error.hpp"

namespace lockstep::week24 {

namespace {

/// A stage's steps: of each kind and chunk one microbatch after the other. Those that there are not, m and above, are
/// left out.
class InOrder {
 public:
  explicit InOrder(int microbatches) : microbatches_(microbatches) {}
  void add(Work work, int chunk) {
    const int microbatch = next_[static_cast<std::size_t>(work)][static_cast<std::size_t>(chunk)]++;
    if (microbatch < microbatches_) steps_.push_back({work, microbatch, chunk});
  }
  void forward(int chunk) { add(Work::forward, chunk); }
  void input(int chunk) { add(Work::input_gradient, chunk); }
  void weight(int chunk) { add(Work::weight_gradient, chunk); }
  const StageSchedule& steps() const { return steps_; }

 private:
  int microbatches_;
  std::array<std::array<int, 2>, 4> next_{};
  StageSchedule steps_;
};

}  // namespace

StageSchedule zb_v(const PipelineShape& shape, int stage) {
  if (shape.placement != Placement::vee || shape.chunks != 2 || shape.stages < 2)
    usage_error("ZB-V needs two chunks per stage in a V, and at least two stages, not " + std::to_string(shape.chunks) +
                (shape.placement == Placement::vee ? " in a V" : " around") + " on " + std::to_string(shape.stages));
  const int p = shape.stages, s = stage, m = shape.microbatches;
  InOrder steps(shape.microbatches);
  todo("24.8",
       "what comes before a stage's first steady turn, so that the stages reach it one after the other and nobody "
       "holds more than 2p; the steady turns, F I W of chunk 0 and of chunk 1; at the end the I that others wait "
       "for, and W where there is nothing else");
  return steps.steps();
}

}  // namespace lockstep::week24

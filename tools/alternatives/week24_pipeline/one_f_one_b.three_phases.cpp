// 24.3 in three loops: warm-up, steady state, cool-down.
#include "labs/week24_pipeline/one_f_one_b.hpp"

#include <algorithm>

namespace lockstep::week24 {
namespace {

class Line {
 public:
  void forward() { steps_.push_back({Work::forward, forwards_++}); }
  void backward() { steps_.push_back({Work::backward, backwards_++}); }
  StageSchedule steps() const { return steps_; }

 private:
  int forwards_ = 0, backwards_ = 0;
  StageSchedule steps_;
};

}  // namespace

StageSchedule one_f_one_b(const PipelineShape& shape, int stage) {
  int behind = 0;
  for (int s = stage + 1; s < shape.stages && behind < shape.microbatches; ++s) ++behind;
  Line line;
  for (int i = 0; i < behind; ++i) line.forward();
  for (int i = 0; i < shape.microbatches - behind; ++i) {
    line.forward();
    line.backward();
  }
  for (int i = 0; i < behind; ++i) line.backward();
  return line.steps();
}

}  // namespace lockstep::week24

// ./lab volume: traffic counted along each axis equals the formulas, to the byte.
#include "tools/train/volume.hpp"

#include <gtest/gtest.h>

#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

double along(const std::vector<CountedTraffic>& all, const std::string& axis) {
  double sum = 0;
  for (const CountedTraffic& one : all) sum += one.axis == axis ? one.bytes : 0;
  return sum;
}

TEST(Volume, EachAxisSendsWhatItsFormulaSays) {
  struct Layout {
    int dp, cp, tp, pp, zero;
    bool cut, gather;
  };
  for (const Layout& l :
       {Layout{4, 1, 1, 1, 0}, Layout{4, 1, 1, 1, 3}, Layout{2, 1, 1, 1, 1, false, true}, Layout{1, 4, 1, 1, 0},
        Layout{2, 2, 2, 1, 2}, Layout{2, 1, 2, 2, 1}, Layout{1, 2, 2, 2, 1}, Layout{2, 1, 2, 2, 0, true}}) {
    TrainRequest request = small_run();
    request.steps = 200;
    request.batch = 16;
    set_mesh(request, l.dp, l.tp, l.pp);
    request.cp = l.cp;
    request.zero = l.zero;
    request.sequence_parallel = l.cut;
    request.overlap_gather = l.gather;
    const TrainPlan plan = make_plan(counted_run(request), 0);
    const std::vector<CountedTraffic> all = counted_traffic(plan);
    const AxisBytes expected = predicted_traffic(plan, 2);
    const std::string layout = fmt::format("dp {} cp {} tp {} pp {} zero {}", l.dp, l.cp, l.tp, l.pp, l.zero);
    EXPECT_NEAR(along(all, "data"), expected.data, 1e-3) << layout;
    EXPECT_NEAR(along(all, "context"), expected.context, 1e-3) << layout;
    EXPECT_NEAR(along(all, "tensor"), expected.tensor, 1e-3) << layout;
    EXPECT_NEAR(along(all, "pipeline"), expected.pipeline, 1e-3) << layout;
    EXPECT_EQ(l.cp > 1, along(all, "context") > 0) << layout;
    EXPECT_EQ(l.pp > 1, along(all, "pipeline") > 0) << layout;
  }
}

TEST(Volume, WhatAStepDoesNotSendIsRefused) {
  TrainRequest request = small_run();
  request.typed = {"--steps"};
  EXPECT_THROW(counted_run(request), Error);
  request.typed = {"--dp"};
  EXPECT_NO_THROW(counted_run(request));
  request.outer_steps = 8;
  EXPECT_THROW(counted_run(request), Error);
  request.outer_steps = 0;
  request.phantom = true;
  EXPECT_THROW(counted_run(request), Error);
}

}  // namespace
}  // namespace lockstep::train

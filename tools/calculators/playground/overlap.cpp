// Gradients averaged bucket by bucket during the backward pass (21.7): what of it shows, by the formula of 21.5.
#include <algorithm>
#include <array>

#include "labs/week21_data_parallel/cost_model.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/calculators/playground/answer.hpp"

namespace lockstep::playground {

namespace {

struct Pass {
  double forward = 0, backward = 0;  // seconds
  double bytes = 0;                  // of all gradients, which are ready one after the other
  int ranks = 1;
  week21::CostModel cost;
};

/// The average of a bucket, in seconds since the step began.
struct Average {
  double ready = 0, begin = 0, end = 0;
};

/// A bucket is averaged once its gradients are ready and the one before is done.
std::vector<Average> averages(const Pass& pass, int buckets) {
  const double each = week21::ring_all_reduce_seconds(pass.cost, pass.ranks, pass.bytes / buckets);
  std::vector<Average> all;
  for (int i = 1; i <= buckets; ++i) {
    const double ready = pass.forward + pass.backward * i / buckets;
    const double begin = std::max(ready, all.empty() ? 0 : all.back().end);
    all.push_back({ready, begin, begin + each});
  }
  return all;
}

double step_seconds(const Pass& pass, int buckets) {
  return std::max(pass.forward + pass.backward, averages(pass, buckets).back().end);
}

}  // namespace

std::string overlap(const Request& request) {
  const Pass pass{.forward = request.number("f", 0, 1e6) / 1e3,
                  .backward = request.number("b", 0, 1e6) / 1e3,
                  .bytes = request.number("n", 1, 1e13),
                  .ranks = request.count("p", 4096),
                  .cost = cost_of(request)};
  const int buckets = request.count("k", 1024);
  const std::vector<Average> all = averages(pass, buckets);
  constexpr std::array<int, 11> kCounts{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  const double each = all.front().end - all.front().begin, compute = pass.forward + pass.backward;
  return fmt::format(
      R"({{"buckets":{},"compute":{},"communication":{},"exposed":{},"step":{},"sequential":{},"by_count":{}}})",
      view::list(all, [](const Average& a) { return fmt::format("[{},{},{}]", a.ready, a.begin, a.end); }), compute,
      buckets * each, step_seconds(pass, buckets) - compute, step_seconds(pass, buckets), compute + buckets * each,
      view::list(kCounts, [&](int count) { return fmt::format("[{},{}]", count, step_seconds(pass, count)); }));
}

}  // namespace lockstep::playground

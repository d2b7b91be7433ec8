// Costs of an all-reduce in the α-β-γ model of 21.5, by algorithm and size.
#include <array>

#include "labs/week21_data_parallel/cost_model.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/calculators/playground/answer.hpp"

namespace lockstep::playground {

namespace {

constexpr double kLeast = 1024, kMost = 17179869184;  // bytes: 1 KiB to 16 GiB

struct Algorithm {
  const char* name;
  double (*seconds)(week21::CostModel cost, int ranks, double bytes);
};
constexpr std::array<Algorithm, 4> kAlgorithms{{{"naive", week21::naive_all_reduce_seconds},
                                                {"ring", week21::ring_all_reduce_seconds},
                                                {"recursive doubling", week21::recursive_doubling_seconds},
                                                {"Rabenseifner", week21::rabenseifner_seconds}}};

std::size_t fastest(week21::CostModel cost, int ranks, double bytes) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < kAlgorithms.size(); ++i)
    if (kAlgorithms[i].seconds(cost, ranks, bytes) < kAlgorithms[best].seconds(cost, ranks, bytes)) best = i;
  return best;
}

/// From how many bytes on an algorithm is the fastest.
struct Win {
  std::size_t algorithm = 0;
  double from = 0;
};

std::vector<Win> wins(week21::CostModel cost, int ranks) {
  std::vector<Win> all{{fastest(cost, ranks, kLeast), kLeast}};
  for (double bytes = kLeast; bytes < kMost; bytes *= 2) {
    double before = bytes, after = 2 * bytes;  // the border lies between
    const std::size_t winner = fastest(cost, ranks, after);
    if (winner == all.back().algorithm) continue;
    while (after - before > 1) {
      const double middle = static_cast<double>(static_cast<long long>((before + after) / 2));
      (fastest(cost, ranks, middle) == winner ? after : before) = middle;
    }
    all.push_back({winner, after});
  }
  return all;
}

}  // namespace

week21::CostModel cost_of(const Request& request) {
  return {.alpha = request.number("alpha", 0, 1e6) / 1e6,
          .beta = 1 / (request.number("link", 1e-3, 1e5) * 1e9),
          .gamma = 1 / (request.number("add", 1e-3, 1e6) * 1e9),
          .launch = request.number("launch", 0, 1e6) / 1e6};
}

std::string all_reduce(const Request& request) {
  const int ranks = request.count("p", 4096);
  const double bytes = request.number("n", 1, 1e12);
  const week21::CostModel cost = cost_of(request);
  const auto number = [](double value) { return fmt::format("{}", value); };
  std::vector<double> sizes;
  for (double size = kLeast; size <= kMost; size *= 2) sizes.push_back(size);
  return fmt::format(
      R"({{"sizes":{},"wins":{},"algorithms":{}}})", view::list(sizes, number),
      view::list(wins(cost, ranks), [](const Win& win) { return fmt::format("[{},{}]", win.algorithm, win.from); }),
      view::list(kAlgorithms, [&](const Algorithm& algorithm) {
        const double seconds = algorithm.seconds(cost, ranks, bytes);
        const week21::Bandwidth rate = ranks > 1 ? week21::bandwidth(ranks, bytes, seconds) : week21::Bandwidth();
        return fmt::format(
            R"({{"name":"{}","at":{},"algbw":{},"busbw":{},"seconds":{}}})", algorithm.name, seconds, rate.algorithm,
            rate.bus, view::list(sizes, [&](double size) { return number(algorithm.seconds(cost, ranks, size)); }));
      }));
}

}  // namespace lockstep::playground

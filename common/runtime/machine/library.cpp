#include "common/runtime/machine/library.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/runtime/machine/machine.hpp"

namespace lockstep {

namespace {

/// y at x, interpolated linearly between the logarithms of the points. Beyond the outer points, continues with their
/// slope in x (`along` 1) or stays constant (0).
template <class Point>
double log_log(const std::vector<Point>& points, double Point::*at, double Point::*value, double x, double along) {
  const auto above =
      std::upper_bound(points.begin(), points.end(), x, [at](double x, const Point& point) { return x < point.*at; });
  if (above == points.begin()) return points.front().*value;
  if (above == points.end()) return points.back().*value * std::pow(x / (points.back().*at), along);
  const Point &a = *(above - 1), &b = *above;
  const double share = std::log(x / (a.*at)) / std::log(b.*at / (a.*at));
  return a.*value * std::pow(b.*value / (a.*value), share);
}

/// Bytes of memory traffic per score, in 16 bits, with its dropout mask in 8: written by q·kᵀ, read and written by the
/// masked softmax and by dropout, read by the product with v; in the backward, moved by each of its four products,
/// dropout and softmax.
constexpr double kScoreProducts = 2, kSoftmax = 4, kDropout = 5, kSoftmaxBackward = 6;

double materialised_seconds(const LibraryPrices& prices, const Operation& operation, bool backward) {
  const double t = static_cast<double>(operation.mnk[0]), width = static_cast<double>(operation.mnk[2]);
  const double heads = operation.flop / ((backward ? 5 : 2) * t * (t + 1) * width);  // summed over all sequences
  const double memory = 1 / prices.memory_bytes_per_second;
  const double product = std::max(2 * width / prices.matmul_flop_per_second, kScoreProducts * memory);
  const double forward = 2 * product + (kSoftmax + kDropout) * memory;
  double score = forward;
  if (backward) score = 4 * product + (kSoftmaxBackward + kDropout) * memory;
  if (backward && prices.kernel == AttentionKernel::materialised_again) score += forward;
  return heads * t * t * score;
}

double attention_seconds(const LibraryPrices& prices, const Operation& operation) {
  const bool backward = std::string_view(operation.name).ends_with("backward");
  if (prices.kernel != AttentionKernel::flash) return materialised_seconds(prices, operation, backward);
  const auto positions = static_cast<double>(operation.mnk[0]);
  return operation.flop / log_log(prices.flash[prices.which].points, &AttentionPoint::positions,
                                  backward ? &AttentionPoint::backward : &AttentionPoint::forward, positions, 0);
}

double gpu_seconds(const LibraryPrices& prices, const Machine& machine, const Operation& operation) {
  if (!operation.matmul) return operation.bytes / prices.memory_bytes_per_second + machine.launch;
  if (std::string_view(operation.name).starts_with("attention"))
    return attention_seconds(prices, operation) + machine.launch;
  const double rate = prices.fp8
                          ? prices.fp8_flop_per_second
                          : prices.matmul_flop_per_second * machine.peak(operation.dtype) / machine.peak(DType::bf16);
  const auto [m, n, k] = operation.mnk;
  const double operands = static_cast<double>((m + n) * k * bytes_of(operation.dtype));
  const double write_rate =
      prices.write_bytes_per_second > 0 ? prices.write_bytes_per_second : prices.memory_bytes_per_second;
  const double others = std::max(0.0, operation.bytes - operands) / write_rate;
  const double memory = (operation.bytes - (prices.fp8 ? operands / 2 : 0)) / prices.memory_bytes_per_second;
  return std::max(operation.flop / rate + others, memory) + prices.matmul_seconds + machine.launch;
}

/// Operations that eager software issues for one of ours. Attention with a matrix of scores: a product, masked softmax,
/// dropout, product and copy; and backward, where each product is two, the copies of three gradients into one
/// (bigscience-workshop/Megatron-DeepSpeed, megatron/model/transformer.py, ParallelAttention).
int issued(const LibraryPrices& prices, const Operation& operation) {
  const std::string_view name = operation.name;
  if (prices.kernel == AttentionKernel::flash || !name.starts_with("attention")) return 1;
  if (!name.ends_with("backward")) return 5;
  return prices.kernel == AttentionKernel::materialised_again ? 12 : 7;
}

}  // namespace

double library_seconds(const LibraryPrices& prices, const Machine& machine, const Operation& operation) {
  const double gpu = gpu_seconds(prices, machine, operation);
  if (prices.host == HostMode::ignored) return gpu;
  const double host = issued(prices, operation) * prices.host_seconds;
  return prices.host == HostMode::waits ? gpu + host : std::max(gpu, host);
}

namespace {

/// The ranks of a group, as seen by a library's rings.
struct Group {
  double ranks = 1, in_node = 1;   // in the group, in all and per node
  double inside = 0, outside = 0;  // α of a hop within a node and between nodes
  double beta = 0;                 // of rings over all ports
  double nodes() const { return ranks / in_node; }
  double hop() const { return ((ranks - nodes()) * inside + nodes() * outside) / ranks; }  // average
};

Group group_of(const Machine& machine, int ranks, int apart) {
  const int level = machine.level_between(0, (ranks - 1) * apart);
  Group group{static_cast<double>(ranks), static_cast<double>(ranks), machine.alpha(0), machine.alpha(0),
              machine.beta(0)};
  if (level == 0) return group;
  const LinkLevel& link = machine.levels[static_cast<std::size_t>(level)];
  const int node = machine.levels[static_cast<std::size_t>(level) - 1].ranks;
  group.in_node = std::clamp(node / apart, 1, ranks);
  group.outside = machine.alpha(level);
  const double ports = link.shared ? 1.0 / std::min(apart, node) : group.in_node;
  group.beta = std::max(machine.beta(level - 1), 1 / (ports * link.bytes_per_second));
  return group;
}

}  // namespace

double library_all_reduce_seconds(const Machine& machine, int ranks, double bytes, int apart) {
  if (ranks == 1 || bytes == 0) return 0;
  const Group group = group_of(machine, ranks, apart);
  const double p = group.ranks, moved = 2 * (p - 1) / p * bytes;
  if (group.nodes() == 1 && machine.library && !machine.library->all_reduce.empty()) {
    const LibraryPrices& prices = *machine.library;
    const double q = prices.all_reduce_ranks;
    return log_log(prices.all_reduce, &CollectivePoint::bytes, &CollectivePoint::seconds, bytes, 1) * (p - 1) / p * q /
           (q - 1);
  }
  const double depth = std::ceil(std::log2(group.nodes())) * group.outside + (group.in_node - 1) * group.inside;
  // With two nodes, each is the root of one half's tree and a leaf of the other's, and sends each half once.
  double tree = 2 * depth + (group.nodes() == 2 ? 1 : 2) * bytes * group.beta;
  if (group.nodes() == 2) {
    tree = std::max(tree, library_all_reduce_seconds(machine, static_cast<int>(group.in_node), bytes, apart));
    if (machine.library && machine.library->tree_bytes_per_second > 0)
      tree = std::max(tree, 2 * bytes / machine.library->tree_bytes_per_second);
  }
  return std::min(2 * (p - 1) * group.hop() + moved * group.beta, tree);
}

double library_ring_bytes_per_second(const Machine& machine, int ranks, int apart) {
  return 1 / group_of(machine, ranks, apart).beta;
}

double library_gather_seconds(const Machine& machine, int ranks, double bytes, int apart) {
  if (ranks == 1 || bytes == 0) return 0;
  const Group group = group_of(machine, ranks, apart);
  const double p = group.ranks, ring = (p - 1) / p * bytes * group.beta;
  if (group.nodes() > 1) return (p - 1) * group.hop() + ring;
  return std::max(library_all_reduce_seconds(machine, ranks, bytes, apart) / 2, ring);
}

double library_collective_seconds(const Machine& machine, int ranks, double bytes, double sent, int apart) {
  if (sent == 0) return 0;
  const bool both_ways = sent > 1.5 * (ranks - 1) / ranks * bytes;
  return (both_ways ? library_all_reduce_seconds : library_gather_seconds)(machine, ranks, bytes, apart);
}

double library_share(const Machine& machine, int level) {
  if (!machine.by_library || machine.library->multiprocessors == 0) return 0;
  const LibraryPrices& prices = *machine.library;
  const int blocks = level == 0 ? prices.collective_blocks : prices.collective_blocks_across_nodes;
  return static_cast<double>(blocks) / prices.multiprocessors;
}

}  // namespace lockstep

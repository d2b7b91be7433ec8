// A machine: the cost model of arithmetic and messages. Read from bench/machines/NAME.json, where every number has a
// source.
//
// Throughout, α is seconds, β seconds per byte, γ seconds per byte reduced.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/runtime/machine/library.hpp"
#include "common/runtime/machine/measured_prices.hpp"
#include "common/runtime/machine/operation.hpp"

namespace lockstep {

/// One kind of link. Ranks r with equal r / ranks are joined by this level or an inner one. A message between two ranks
/// whose innermost common level is l crosses an egress and an ingress port of every level up to l: its latency is the
/// sum of theirs, its bandwidth the minimum.
struct LinkLevel {
  std::string name;
  int ranks = 1;                // ranks in one group of this level; the outermost may be 0: all
  double latency = 0;           // α, seconds
  double bytes_per_second = 1;  // of one port, each direction
  bool shared = false;  // one port pair for all ranks of the group one level in (a node's NIC); otherwise one per rank
};

/// Fraction of the peak that a matmul of a given size reaches. Between two points, time is linear in FLOP, so a larger
/// matmul never takes less; outside the points, the nearest point's fraction applies.
struct EfficiencyPoint {
  double flop = 0;
  double fraction = 1;
};

/// The host of a node's GPUs: what it takes to keep states in its memory (labs/trainer/plan/offload.hpp).
struct HostMemory {
  double memory_bytes = 0;
  double memory_bytes_per_second = 0;  // read and written by programs on all of its cores
  double gpu_bytes_per_second = 0;     // to or from one GPU, while all GPUs of the node do the same
};

struct Machine {
  std::string name = "uniform";
  std::string description;
  std::vector<LinkLevel> levels;
  std::array<double, 5> peak_flop_per_second{};  // by DType
  std::vector<EfficiencyPoint> efficiency;
  double memory_bytes = 0;
  double memory_bytes_per_second = 0;
  double launch = 0;                 // seconds, added to each operation
  std::uint64_t eager_bytes = 8192;  // a larger send waits for its receive
  std::optional<HostMemory> host;    // of one node
  std::optional<LibraryPrices> library;
  bool by_library = false;  // operations take `library`'s times: as_library()
  MeasuredPrices measured;  // tables, which take precedence over the numbers above; may be empty

  /// Seconds of an operation: max(FLOP / (peak × efficiency), bytes / memory bandwidth) + launch, with an efficiency of
  /// 1 for all but matmuls. Tables, if there are any, take precedence: a product takes the measured time of its shape,
  /// scaled to other peaks; an operation measured by name takes that time; any other takes as long as an addition that
  /// touches as many bytes. If the rank's program cycles through `live_bytes`, each operation finds the caches in the
  /// state that such a working set leaves (MeasuredPrices::walk_seconds). Without tables, `live_bytes` has no effect.
  double seconds(const Operation& operation, double live_bytes = 0) const;
  double peak(DType dtype) const { return peak_flop_per_second[static_cast<std::size_t>(dtype)]; }
  /// Part of seconds() that this kind of operation costs with almost nothing to do: launch and, for a matmul, the time
  /// of the smallest one on the efficiency curve (the chip fills and drains).
  double overhead(const Operation& operation) const;
  /// Fraction of the peak that a matmul of `flop` reaches.
  double matmul_efficiency(double flop) const;

  /// Seconds of a message of `bytes` between two ranks whose innermost common level is `level`.
  double message_seconds(int level, double bytes) const;

  /// γ of `add`: seconds per byte reduced (two reads and a write).
  double gamma() const { return by_library ? 0 : 3 / memory_bytes_per_second; }

  /// The same machine with its vendor's libraries: operations take the time that `library` says, and between nodes the
  /// ports of all ranks of a node act as one, since rings are striped over them. Throws Error(usage) if its file has no
  /// `library`, or no flash kernel of this name.
  Machine as_library(AttentionKernel kernel = AttentionKernel::flash, const std::string& flash = "") const;

  /// Number of ranks that the machine holds; 0: any number.
  int capacity() const { return levels.empty() ? 1 : levels.back().ranks; }
  /// Index of the innermost level that joins two different ranks; Error(usage) beyond the capacity.
  int level_between(int a, int b) const;
  /// Ports of `level` that a message crosses. A shared port belongs to the group one level in. On the innermost level
  /// it belongs to the whole group: a bus, that is, one port for both directions.
  struct LevelPorts {
    int egress = 0;   // index among the egress ports of the level
    int ingress = 0;  // among the ingress ports, or for a bus among the egress ports
    bool bus = false;
  };
  LevelPorts ports(int level, int from, int to) const;
  /// Number of consecutive ranks that share a port of `level`; 0: all.
  int ranks_per_port(int level) const;
  /// α of a message between two ranks whose innermost common level is `level`.
  double alpha(int level) const;
  /// β of it: the reciprocal of the smallest bandwidth on its path.
  double beta(int level) const;

  /// One level, no launch overhead, and arithmetic in which `add` costs gamma per byte, for tests against closed forms.
  static Machine uniform(double alpha, double beta, double gamma);
};

/// Reads and checks a machine file (format: docs/use/machines.md). A missing, unknown or absurd field is an
/// Error(usage) that names the file, the field, its value and a sensible range.
Machine read_machine(const std::string& path);
/// The same for the text of a file. `path` names it in messages; a cluster's node is read from the folder of `path`.
Machine parse_machine(const std::string& text, const std::string& path);
/// Reads `folder`/`name`.json, or the file `name` if it ends in ".json". If unknown, Error(usage) suggests the nearest.
Machine find_machine(const std::string& name, const std::string& folder);
/// Names of the machine files in `folder`, sorted.
std::vector<std::string> machine_names(const std::string& folder);

}  // namespace lockstep

// A machine: what arithmetic and messages cost. Read from bench/machines/NAME.json; every number there has its source.
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
/// sum of theirs, its bandwidth the smallest.
struct LinkLevel {
  std::string name;
  int ranks = 1;                // that one group of this level holds; the outermost may be given as 0: all
  double latency = 0;           // α, seconds
  double bytes_per_second = 1;  // of one port, each direction
  bool shared = false;          // one port pair for all ranks of the group one level in (a node's NIC); else one a rank
};

/// Fraction of the peak that a matmul of a given size reaches. Between two points its time is linear in FLOP, so a
/// larger matmul never takes less; beyond the points, the fraction is the nearest point's.
struct EfficiencyPoint {
  double flop = 0;
  double fraction = 1;
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
  std::optional<LibraryPrices> library;
  bool by_library = false;  // operations take what `library` says, and additions of a collective nothing: as_library()
  MeasuredPrices measured;  // tables, which go before the numbers above; empty: there are none

  /// max(FLOP / (peak × efficiency), bytes / memory bandwidth) + launch. Efficiency is 1 where it is no matmul. Where
  /// there are tables, a product is what they say, other peaks scaling it, an operation takes the time that was
  /// measured of its name, and any other one as long as an addition that touches as many bytes; and where the rank's
  /// program goes through `live_bytes` again and again, each finds in the caches what so long a walk leaves there
  /// (MeasuredPrices::walk_seconds). Without tables `live_bytes` changes nothing.
  double seconds(const Operation& operation, double live_bytes = 0) const;
  /// Of these: what the same kind of operation costs with next to nothing to do, that is launch, and for a matmul the
  /// time of the smallest one on the efficiency curve (a chip that fills and empties).
  double overhead(const Operation& operation) const;
  /// Of the peak, for a matmul of `flop`.
  double matmul_efficiency(double flop) const;

  /// Seconds of a message of so many bytes between two ranks whose innermost common level is `level`.
  double message_seconds(int level, double bytes) const;

  /// γ of `add`: seconds per byte reduced (two reads and a write).
  double gamma() const { return by_library ? 0 : 3 / memory_bytes_per_second; }

  /// The same machine with its vendor's libraries: operations by `library`, and between nodes the ports of all of a
  /// node's ranks as one, over which rings are striped. Without a `library` in its file, or a
  /// flash kernel of this name in it: Error(usage).
  Machine as_library(AttentionKernel kernel = AttentionKernel::flash, const std::string& flash = "") const;

  /// Ranks that the machine holds; 0: any number.
  int capacity() const { return levels.empty() ? 1 : levels.back().ranks; }
  /// Index of the innermost level that joins two different ranks; beyond the capacity, Error(usage).
  int level_between(int a, int b) const;
  /// Which ports of `level` a message crosses. A shared port belongs to the group one level in; on the innermost level
  /// to the whole group: a bus, which is one port for both directions.
  struct LevelPorts {
    int egress = 0;   // index among the egress ports of the level
    int ingress = 0;  // among the ingress ports, or of a bus among the egress ports
    bool bus = false;
  };
  LevelPorts ports(int level, int from, int to) const;
  /// Consecutive ranks that share a port of `level`; 0: all.
  int ranks_per_port(int level) const;
  /// α of a message between two ranks whose innermost common level is `level`.
  double alpha(int level) const;
  /// β of it: reciprocal of the smallest bandwidth on its path.
  double beta(int level) const;

  /// One level, no launch overhead, arithmetic so that `add` costs gamma a byte: for tests against closed forms.
  static Machine uniform(double alpha, double beta, double gamma);
};

/// Reads and checks a machine file (docs/machines.md says what is in one): a missing, unknown or absurd field is an
/// Error(usage) that names file, field and value, and what would be sensible.
Machine read_machine(const std::string& path);
/// The same of a file's text; `path` is what messages call it, and where a cluster's node lies beside.
Machine parse_machine(const std::string& text, const std::string& path);
/// `folder`/`name`.json, or where `name` ends in ".json" that file; unknown: an Error(usage) that suggests the nearest.
Machine find_machine(const std::string& name, const std::string& folder);
/// Names of the machine files in `folder`, sorted.
std::vector<std::string> machine_names(const std::string& folder);

}  // namespace lockstep

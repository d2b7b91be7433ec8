// Links of the emulated machine: the time at which each port becomes free, in memory shared by all processes of a host.
//
// The model is the simulator's: a message needs every port on its path at once and holds each for bytes / that port's
// bandwidth. Here real time decides who comes first: the first process to ask after the ports became free takes them,
// counted from the moment they became free.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <optional>

#include "common/runtime/machine/machine.hpp"

namespace lockstep::mpi {

/// The links between two ranks.
struct Path {
  double alpha = 0;  // seconds
  double beta = 0;   // seconds per byte
  struct Hop {
    int port = 0;
    double seconds_per_byte = 0;
  };
  std::array<Hop, 16> hops{};
  int count = 0;
};

class Ports {
 public:
  /// Collective over `comm`. Throws Error(usage) if the ranks are on several hosts or do not fit the machine.
  Ports(const Machine& machine, MPI_Comm comm);
  ~Ports();
  Ports(const Ports&) = delete;

  Path path(int from, int to) const;
  /// Time at which the message's first byte left; empty if it cannot leave by `now` (modelled seconds): ask again.
  std::optional<double> grant(const Path& path, double bytes, double ready, double now);

 private:
  struct Table {
    std::atomic<int> locked;
    double free_at[];
  };
  const Machine& machine_;
  int ranks_ = 0;
  MPI_Win window_ = MPI_WIN_NULL;
  Table* table_ = nullptr;
};

}  // namespace lockstep::mpi

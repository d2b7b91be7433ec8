// The verbs that differ between backends: what each backend implements for one rank. Lab code never includes this file.
//
// Rank's methods check what can be checked anywhere (peers in range, slices not empty handles, empty tickets), then
// call these. Every backend implements every method fully.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/ledger/ledger.hpp"

namespace lockstep {

class Device;
struct Operation;

/// A borrowed callable, called before `compute` returns: no allocation on the hot path.
class Kernel {
 public:
  template <class F>
  explicit Kernel(const F& f) : object_(&f), call_([](const void* o, Device& d) { (*static_cast<const F*>(o))(d); }) {}
  void operator()(Device& device) const { call_(object_, device); }

 private:
  const void* object_;
  void (*call_)(const void*, Device&);
};

/// A communicator and an ordered queue: the place where a verb is called.
struct CommunicatorKey {
  int group = 0;  // index of a group this rank belongs to; 0 is the world
  int queue = 0;  // index of a queue of this rank; 0 is main
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual Ticket start(CommunicatorKey at, std::span<const Transfer> batch, Location where) = 0;
  virtual void wait(CommunicatorKey at, Ticket ticket, Location where) = 0;
  virtual Rank split(CommunicatorKey at, int color, int key, Location where) = 0;
  virtual Rank stream(CommunicatorKey at, std::string_view name, Location where) = 0;
  virtual Ticket run(CommunicatorKey main, Rank queue, std::function<void(Rank)> f, Location where) = 0;
  virtual Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) = 0;

  /// Performs arithmetic in order on its queue: checks access, determines the cost and, except in a phantom run, calls
  /// `kernel` with the device that computes.
  virtual void compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) = 0;
  /// True if this rank's device is real and computes a product and its GELU faster as one operation.
  virtual bool fuses_gelu() const { return false; }
  /// True if this rank's device is real and computes adamw_pieces faster as one operation.
  virtual bool fuses_pieces() const { return false; }

  virtual void open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) = 0;
  virtual void close_region(int queue) = 0;

  virtual void upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) = 0;
  /// Copies the slice to `bytes`, after this queue's work. False, leaving `bytes` unchanged, in a phantom run.
  virtual bool download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) = 0;
  /// Like `download`, but outside ledgers and virtual time, for `show`.
  virtual bool peek(CommunicatorKey at, const Slice& slice, void* bytes) = 0;

  /// This rank's ledger so far. Called on main while no closure runs.
  virtual RankLedger ledger() const = 0;

  /// Seconds since the run began, at the end of the queue's work so far (waits for it if it runs asynchronously).
  virtual double now(int queue) const = 0;
  virtual int world_rank() const = 0;
};

}  // namespace lockstep

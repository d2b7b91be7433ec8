// Exercise 21.12: local SGD and DiLoCo. Every rank takes `every` optimizer steps of its own and sends nothing; then all
// ranks agree on one outer step. Communication falls by the factor `every`; the cost is that replicas drift apart in
// between.
//
// Averaging the parameters: Stich, "Local SGD Converges Fast and Communicates Little" (arXiv 1805.09767). An outer
// optimizer, for which the average drift is a gradient: Douillard et al., "DiLoCo: Distributed Low-Communication
// Training of Language Models" (arXiv 2311.08105), algorithm 1; with momentum it is the slow momentum of Wang et al.
// (arXiv 1910.00643).
//
//   LocalSgd outer(dp, model.parameters().values, {.every = 16}, ring_all_reduce);   // rank 0's values, everywhere
//   for (…) {
//     model.backward(…);               // this rank's own batch
//     optimizer.step(dp, rate);        // this rank's own AdamW; its m and v are never sent
//     outer.step_done();               // every 16th time: an outer step
//   }
//   outer.finish();
//
// Symbols: θ₀ the parameters after the last outer step, the same on all ranks; θᵣ rank r's after its local steps; g the
// outer gradient; v the velocity; μ the momentum. All slices are f32 and as long as the parameters.
#pragma once

#include "common/rank.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/ddp.hpp"

namespace lockstep::week21 {

/// The outer optimizer. These defaults are DiLoCo's; {.learning_rate = 1, .momentum = 0} is local SGD, which continues
/// from the average of the replicas.
struct OuterSgd {
  int every = 16;              ///< H ≥ 1: local steps between two outer ones
  float learning_rate = 0.7f;  ///< of the outer step
  float momentum = 0.9f;       ///< μ of the outer step; 0: none
  bool nesterov = true;        ///< look ahead by one more μ·v, as PyTorch's SGD(nesterov=True) does
};

/// Part a. `values`, which holds θᵣ, becomes the outer gradient: the average over the ranks of θ₀ − θᵣ, with the same
/// bits on every rank. `start` holds θ₀ and is not changed. One all-reduce of the whole array, called once; no other
/// memory.
void outer_gradient(Rank dp, Slice values, Slice start, const AllReduce& all_reduce);

/// Part b. `values` holds the outer gradient g; `start`, θ₀, takes a step of SGD, and `values` becomes its copy:
///
///   v ← μ·v + g;   θ₀ ← θ₀ − rate·(g + μ·v) with Nesterov, θ₀ − rate·v without
///
/// `velocity` keeps whatever you need of v from one outer step to the next; zeros before the first, empty where μ = 0.
/// Nothing is sent. Memory: at most one more array (Category::buffer), freed on return.
void outer_step(Rank dp, Slice values, Slice start, Slice velocity, const OuterSgd& how);

/// Part c: when. One for a training run, on the main queue.
class LocalSgd {
 public:
  /// Given. Collective over `dp`, at set-up: rank 0's `values` on every rank, and memory for θ₀ and, with momentum, for
  /// the velocity: 4 or 8 bytes per parameter (Category::optimizer). Throws Error(usage) for every < 1, or values that
  /// are not f32.
  LocalSgd(Rank dp, Slice values, OuterSgd how, AllReduce all_reduce);

  /// Called after each local step. After every H-th one: an outer step, after which all replicas are equal. After the
  /// others: nothing at all.
  void step_done();

  /// After the last local step: an outer step if there were local steps since the last one, else nothing. The count to
  /// H starts again. All ranks have taken equally many steps.
  void finish();

  // Given, for checkpoints: what replicas share, in place, and how far they are.
  const Slice& start() const { return start_; }
  const Slice& velocity() const { return velocity_; }  ///< empty without momentum
  int local_steps() const { return local_steps_; }
  /// `start`, `velocity` and this rank's values have been put back, `local_steps` after an outer step.
  void resume(int local_steps) { local_steps_ = local_steps; }

 private:
  void outer();  // given: parts a and b

  Rank dp_;
  Slice values_;
  OuterSgd how_;
  AllReduce all_reduce_;
  Slice start_, velocity_;
  int local_steps_ = 0;  // since the last outer step
};

/// Part d. Bytes that a rank sends for one local step, on average over many: what a ring all-reduce (21.2) of
/// `elements` f32 sends, where p divides them, divided by the number of steps that share it.
double local_sgd_bytes(const OuterSgd& how, int ranks, double elements);

/// Given: seconds of a local step, on average over many: `compute_seconds` of its own, and its part of a ring
/// all-reduce (21.5), which nothing overlaps. The outer step's arithmetic is not counted.
double local_sgd_seconds(const OuterSgd& how, const CostModel& link, int ranks, double elements,
                         double compute_seconds);

/// Part d. The least H for which at most `share` of the time is communication. 0 < share < 1; compute_seconds > 0.
int least_every(const CostModel& link, int ranks, double elements, double compute_seconds, double share);

}  // namespace lockstep::week21

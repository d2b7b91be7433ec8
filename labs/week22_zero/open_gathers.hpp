// Exercise 22.7, an open task: when FSDP gathers. 22.4 gathers one unit ahead and frees each after its use; here you
// decide when, for a step whose units differ, under a memory limit. There is no skeleton to fill in and no single
// answer: the tests require a plan that can be executed, with less than a tenth of the gathering time exposed.
//
// Prior work: Zhao et al., "PyTorch FSDP" (arXiv 2304.11277), section 3.3, on prefetching in either pass and on
// limiting how far ahead.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::week22 {

/// A step of a model of n units, each of which is used twice. Moment t < n is unit t's forward pass; moment n + i is
/// the backward pass of unit n − 1 − i, which takes twice as long.
struct ShardedStep {
  std::vector<std::size_t> elements;    ///< by unit, of its unsharded values (f32)
  std::vector<double> gather_seconds;   ///< by unit, of one gather alone
  std::vector<double> forward_seconds;  ///< by unit, of its arithmetic
  std::size_t most_elements = 0;        ///< limit for all units that are gathered, or being gathered, at one time

  std::size_t units() const { return elements.size(); }
  std::size_t moments() const { return 2 * elements.size(); }
  std::size_t used_at(std::size_t moment) const { return moment < units() ? moment : moments() - 1 - moment; }
};

/// Messages around the arithmetic of one moment. Gathers run one after the other on the queue "comm", concurrently with
/// main, which waits only for the unit that it is about to use. After each moment of the backward pass the unit's
/// gradients are reduced there too, after the gathers that have been started.
struct Moment {
  std::vector<std::size_t> gather;  ///< units, in this order, started before the arithmetic
  std::vector<std::size_t> free;    ///< units that are freed after it
};

/// The plan of the whole step, a Moment for each of step.moments(). Every unit is in memory when it is used; none is
/// gathered while it is in memory, or freed before it has been used; at no time is more than step.most_elements
/// gathered, and after the last moment nothing is.
///
/// Of the time that gathering each unit twice takes, at least 90 % must be hidden: the step may take 10 % of it longer
/// than one in which nothing is gathered. On the scoreboard are three steps on 8 ranks: 8 equal units with room for 3;
/// 12 units, every third of which is 4 times as large, with room for 6 small ones; and 11 small ones before one that is
/// 5 times as large, with room for 8. Any two neighbours fit together.
std::vector<Moment> open_gathers(const ShardedStep& step);

}  // namespace lockstep::week22

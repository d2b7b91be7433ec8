// Tables of bench/published as they are read: what a row is, by its file's `kind`.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/model/config.hpp"
#include "common/runtime/machine/library.hpp"
#include "labs/week25_3d/planner.hpp"

namespace lockstep::plan {

/// A training run.
struct PublishedRun {
  std::string name;     ///< "mpt-7b, 2048 tokens, 8 GPUs"
  std::string machine;  ///< a cluster's file
  GptConfig model;
  std::size_t length = 0;
  int gpus = 0, batch = 0;      ///< sequences of a step
  week25::Strategy strategy;    ///< dp, tp, pp, microbatch, ZeRO, recompute: full
  bool selective = false;       ///< recomputation of scores alone
  bool stops_early = false;     ///< full recomputation of a block skips its last product
  bool keeps_products = false;  ///< as Task's
  int shards = 0;               ///< ranks that share one copy of ZeRO-3's state; 0: all of dp
  bool any_microbatch = false;  ///< the source does not say: the fastest that fits
  bool any_schedule = false;    ///< likewise
  AttentionKernel attention = AttentionKernel::flash;
  std::string kernel;  ///< of flash attention, as machine files call it; "": theirs first
  HostMode host = HostMode::ignored;
  std::string units;                                     ///< of ZeRO-3
  bool overlap = true, overlap_tensor = true;            ///< as Task's
  bool overlap_scatter = false, overlap_gather = false;  ///< as week25::Options3d's
  int node_ports = 0;                                    ///< ports of a node, where they are fewer than the file's
  bool two_gradients = false;                            ///< fp32 sums in addition to the 16-bit gradients they sum
  bool copied_gradients = false;                         ///< the update copies its part of the 16-bit gradients to fp32
  bool fp32_reduction = false;                           ///< as Task's
  double copied_bytes = 0;                               ///< as Task's
  std::string unfused;                                   ///< whose passes (software.hpp)
  std::string fp8;                                       ///< how 8-bit floats are scaled (software.hpp); "": none
  bool fp8_gather = false;                               ///< ZeRO-3 gathers weights in 8 bits
  double buffer_bytes = 0;                               ///< that the software holds besides
  double imbalance = 1;                                  ///< as Task's
  double memory_bytes = 0;                               ///< that a GPU used, published; 0: not
  double seconds = 0;                                    ///< of a step, published or from what was
  std::vector<PublishedRun> others;                      ///< the same run, if what the source leaves open was otherwise
};

/// Seconds of one all-reduce.
struct PublishedSum {
  std::string machine;
  int ranks = 0, node_ports = 0;  ///< ports of a node, where they are fewer than the file's
  double bytes = 0, seconds = 0;
};

/// A bubble: (cost − m(F + B + W)) / cost.
struct PublishedBubble {
  std::string schedule;
  PipelineShape shape;
  StepTimes times;
  double bubble = 0;
};

/// One file. Of the lists, that of its kind has its rows.
struct PublishedTable {
  std::string name, source;
  std::string doubt;             ///< why a prediction of it may be off; may be empty
  bool overlap_assumed = false;  ///< the source does not say which collectives nothing hides
  std::vector<PublishedRun> runs;
  std::vector<PublishedSum> sums;
  std::vector<PublishedBubble> bubbles;
};

/// Throws Error(usage) with file and row where something is missing.
PublishedTable read_published(const std::string& path);
/// All of a folder, by name.
std::vector<PublishedTable> read_all_published(const std::string& folder);

/// FLOP of a step by arXiv 2104.04473's formula, recomputation included.
double megatron_flop(const GptConfig& model, std::size_t length, double batch);

}  // namespace lockstep::plan

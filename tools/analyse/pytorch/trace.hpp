// Traces that PyTorch's profiler wrote (torch.profiler, export_chrome_trace), one file per rank.
#pragma once

#include <string>
#include <vector>

#include "common/analysis/intervals.hpp"

namespace lockstep::pytorch {

using analysis::Interval;  // seconds on the rank's clock

/// One collective as one rank recorded it: on a GPU NCCL's kernel, on the CPU Gloo's call.
struct Collective {
  std::string name;   // "all_reduce", "all_gather", "reduce_scatter", …
  std::string group;  // the process group's name; empty if the trace does not say
  double bytes = 0;   // of the array that is reduced, or gathered; 0 if the trace does not say
  int members = 0;    // ranks of the group; 0 likewise
  Interval when{0, 0};
};

/// A kernel or a copy of memory on a GPU, an operation on the CPU.
struct Operation {
  std::string name;
  Interval when{0, 0};
  std::string thread = "";  // on the CPU
};

/// The content of one rank's file.
struct RankTrace {
  std::string file;
  int rank = 0;
  int ranks = 1;
  bool gpu = false;  // it has kernels
  std::string backend;
  std::string host;
  double clock = 0;                     // seconds since 1970 at which this file's times begin
  int first_step = -1;                  // number of the first one that is marked; -1: none is
  std::vector<Interval> steps;          // between calls of profiler.step(); the whole trace if there are none
  std::vector<Operation> operations;    // by begin, without overlaps: of two at a time, what began first
  std::vector<Operation> parts;         // of the program that have a name: record_function's, and PyTorch's own
  std::vector<Collective> collectives;  // by begin
};

/// True if a file's beginning looks like one of PyTorch's, not like one of ./lab train --trace.
bool is_pytorch_trace(const std::string& path);

/// Throws Error(usage) with one sentence that names `path`: no such file, not such a trace, cut short, without
/// distributedInfo (the profiler ran without torch.distributed), or without a single operation.
RankTrace read_trace(const std::string& path);

}  // namespace lockstep::pytorch

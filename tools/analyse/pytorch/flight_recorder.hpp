// Dumps of PyTorch's flight recorder, one per rank: what each process group had begun when a run hung
// (docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html, and flight_recorder/components of its source).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/support/json/results.hpp"

namespace lockstep::pytorch {

/// A collective that one rank has begun.
struct Recorded {
  std::string name;   // "all_reduce"
  std::string sizes;  // "[1024] Float": what all ranks must agree on
  std::string state;  // "scheduled", "started" on the GPU, or "completed"
  std::string where;  // "train.py:42", the innermost frame outside PyTorch; empty: no frames were recorded
};

/// The record of one process group on one rank.
struct GroupRecord {
  std::string description;               // "default_pg"
  std::vector<int> members;              // empty: not said
  std::map<long, Recorded> collectives;  // by sequence number
};

struct FlightRecord {
  std::string file;
  int rank = 0;
  std::map<std::string, GroupRecord> groups;  // by name
  int messages = 0;                           // sends and receives, which are not compared
};

/// A process group in which not all ranks do the same, or of which one collective was not completed.
struct Finding {
  std::string group;
  long sequence = 0;
  std::string kind;  // "MISSING", "MISMATCH" or "UNFINISHED"
  std::string text;  // a sentence
};

struct Flight {
  std::vector<FlightRecord> ranks;
  std::vector<int> absent;  // ranks of a group that have no file
  std::vector<Finding> findings;
};

bool is_flight_record(const std::string& path);

/// The rank is the last number in the file's name. Throws Error(usage) that names `path`.
FlightRecord read_flight_record(const std::string& path);

/// The first finding of each group: what follows it is its consequence. Throws Error(usage) if two files are of one
/// rank.
Flight compare(std::vector<FlightRecord> ranks);

std::string format(const Flight& flight);
/// One for each group and rank, and one for each finding (docs/use/output.md).
std::vector<Row> rows(const Flight& flight);

}  // namespace lockstep::pytorch

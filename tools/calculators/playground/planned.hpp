// Models and machines that the page plans for, and the costs of a model's pieces on them. Their dry runs count bytes
// beyond the 4 GiB that a number in the browser's 32-bit C++ can name, so the page has their results as a table.
#pragma once

#include <array>
#include <span>
#include <string>

#include "common/runtime/machine/machine.hpp"
#include "labs/trainer/plan/pieces.hpp"

namespace lockstep::playground {

struct PlannedMachine {
  const char* name;
  const char* file;  ///< of bench/machines: a cluster, of any number of nodes
};
inline constexpr std::array<PlannedMachine, 6> kPlannedMachines{{{"DGX A100 80 GB, InfiniBand", "dgx-a100-hdr"},
                                                                 {"DGX A100 80 GB, 10 Gb/s", "dgx-a100-10gbe"},
                                                                 {"HGX A100 40 GB, 400 Gb/s", "hgx-a100-40gb-efa"},
                                                                 {"DGX H100 80 GB, InfiniBand", "dgx-h100-ndr"},
                                                                 {"4 × RTX 4090 24 GB, 100 Gb/s", "pcie-box-100gbe"},
                                                                 {"4 × RTX 4090 24 GB, 10 Gb/s", "pcie-box-10gbe"}}};
inline constexpr std::array<const char*, 6> kPlannedModels{"gpt2-355m", "gpt2-1.5b", "llama3-8b",
                                                           "gpt3-13b",  "gpt-22b",   "llama3-70b"};
inline constexpr int kMostPlannedGpus = 32, kMostPlannedSequences = 256;  // an answer takes about a second

/// One of kPlannedMachines: natively its file, in the page what a plan needs of it.
Machine planned_machine(const std::string& file);

/// The costs of a model's pieces, number by number.
using PieceValues = std::array<double, sizeof(plan::Pieces) / sizeof(double)>;
struct PieceRow {
  const char* machine;
  std::size_t d_model;  ///< says which model
  int tp, microbatch;
  bool sequence_parallel;
  std::size_t values;  ///< index into the table's
};
struct PiecesTable {
  std::span<const Machine> machines;
  std::span<const PieceValues> values;
  std::span<const PieceRow> rows;
};
/// Only in the page, from a file that `playground --pieces` writes.
const PiecesTable& pieces_table();

/// The text of that file: C++ that defines pieces_table().
std::string write_pieces_table();

}  // namespace lockstep::playground

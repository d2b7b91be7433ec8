// What the page plans for: models, machines, and what a model's pieces cost on them. Their dry runs count bytes beyond
// the 4 GiB that a number in the browser's 32-bit C++ can name, so the page has their results as a table.
#pragma once

#include <array>
#include <string>

#include "common/runtime/machine/machine.hpp"

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

/// C++ for tabled.cpp: the machines, and the costs of all pieces.
std::string pieces_table();

}  // namespace lockstep::playground

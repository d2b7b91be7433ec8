// Plants a fault in one rank of a run: in its hardware, or in what its worker was made of.
#pragma once

#include "labs/week25_3d/worker.hpp"
#include "tools/analyse/drill/fault.hpp"
#include "tools/analyse/drill/faulty_backend.hpp"

namespace lockstep::drill {

/// `rank` of the world has `backend` and `worker`. Faults in data, buckets and the mesh are planted by play.cpp.
void plant(const Fault& fault, int rank, FaultyBackend& backend, week25::Worker& worker);

/// A stage's steps with the fault of that kind: an earlier or a later first backward, two forwards that have changed
/// places. The same steps for any other kind.
StageSchedule faulty_schedule(const StageSchedule& steps, const Fault& fault);

/// The fault in a sentence, for a learner who has found it.
std::string describe(const Fault& fault);

}  // namespace lockstep::drill

// The scheduler of the virtual cluster.
#include "common/backends/sim/world.hpp"

#include <algorithm>

#include "common/devices/cpu/cpu_device.hpp"
#include "common/support/host/host.hpp"

namespace lockstep::sim {

World::World(const RunOptions& options, const Program& program)
    : WorldBase(options, program), network_(options.machine, options.ranks) {
  if (!options.phantom) device_ = make_cpu_device(options.threads > 0 ? options.threads : read_host().usable_cores);
  make_ranks();
}

// Fibers --------------------------------------------------------------------------------------------------------------

void World::sleep_until(Queue& queue, double time) {
  events_.put(time, {EventKind::wake, &queue});
  queue.fiber->suspend();
  queue.clock = std::max(queue.clock, time);
  if (failing_) throw Unwind{};
}

void World::wake_at(Queue& queue, double time) {
  queue.blocked.on = Blocked::On::nothing;  // so that it is not woken twice
  events_.put(time, {EventKind::wake, &queue});
}

void World::wake(Queue& queue, double time) {
  // A rank that uses only main may run ahead, since its work is not visible to others before its next message.
  if (queue.owner->watched() && time > time_) return wake_at(queue, time);
  queue.blocked.on = Blocked::On::nothing;
  runnable_.push_back(&queue);
}

void World::loop() {
  while (!failing_) {
    if (!runnable_.empty()) {
      // In the order woken; queues that these wake come after them.
      for (std::size_t i = 0; i < runnable_.size() && !failing_; ++i) resume(*runnable_[i]);
      runnable_.clear();
    } else if (events_.due()) {
      handle(events_.take());
    } else if (network_.has_work()) {
      for (const Network::Decision& decision : network_.grant_in_order(time_)) {
        if (decision.granted)
          granted(decision.granted);
        else
          events_.put(decision.awaited->free_at, {EventKind::port, decision.awaited});
      }
    } else if (!events_.empty()) {
      time_ = events_.advance();
    } else {
      return;
    }
  }
}

void World::handle(Event event) {
  switch (event.kind) {
    case EventKind::wake: resume(*static_cast<Queue*>(event.what)); break;
    case EventKind::begin: {
      TransferBatch* batch = static_cast<TransferBatch*>(event.what);
      try {
        begin(batch);
      } catch (...) {
        record_failure(batch->endpoint->owner->queue(batch->endpoint->queue));
      }
      break;
    }
    case EventKind::port: {
      Port* port = static_cast<Port*>(event.what);
      port->alarm = false;
      network_.port_freed(port);
      break;
    }
  }
}

void World::release_left_memory() {
  for (TransferBatch& batch : batch_store_) batch.transfers.clear();
}

}  // namespace lockstep::sim

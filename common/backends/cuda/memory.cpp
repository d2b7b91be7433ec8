// The verbs of one rank that involve only its own queues: arithmetic, memory, regions, explicit synchronisation; and
// their timing.
#include <algorithm>

#include "common/backends/cuda/world.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/runtime/new_block.hpp"

namespace lockstep::cuda {

// Time ----------------------------------------------------------------------------------------------------------------

Event CudaRank::here(Queue& queue) const {
  if (!queue.last) queue.last = world_.events().record(queue.stream.get());
  return queue.last;
}

void CudaRank::span(Event begin, std::vector<Event> ends, Timeline::Tell tell) {
  constexpr std::size_t kMostSpans = 1 << 12;
  timeline_.add(std::move(begin), std::move(ends), std::move(tell));
  if (timeline_.size() > kMostSpans) timeline_.tell(world_.clock());
}

/// Records the arithmetic since the last wait as one span: two events per operation would take longer than a short
/// operation. With a trace, every operation is timed separately.
void CudaRank::end_stretch(Queue& queue, const Event& end) {
  if (queue.worked)
    span(queue.stretch, {end}, [this, index = queue.index](double from, double to) {
      recorder_.busy(index, from, to, "arithmetic", 0, Location{}, 0);
    });
  queue.worked = false;
  queue.stretch = {};
  queue.backlog.close(end);
}

void CudaRank::waited(Queue& queue, const Event& before, Location where, std::uint64_t position) {
  queue.last = {};
  queue.stretch = here(queue);
  span(before, {queue.stretch}, [this, index = queue.index, where, position](double from, double to) {
    recorder_.waited(index, from, to, where, position);
  });
}

// Arithmetic ----------------------------------------------------------------------------------------------------------

void CudaRank::compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) {
  if (world_.stopped()) return;
  Queue& queue = calling(at.queue, where);
  for (const Slice* slice : operation.reads)
    if (slice) use(queue, *slice);
  for (const Slice* slice : operation.writes)
    if (slice) use(queue, *slice);
  recorder_.count_flop(queue.index, operation.flop);
  const OperationRange named(operation.name);
  if (!queue.device) queue.device = make_cuda_device(queue.stream.get(), world_.options().tf32);
  if (!recorder_.tracing()) {
    if (!queue.stretch) queue.stretch = here(queue);
    queue.worked = true;
    kernel(*queue.device);
    queue.backlog.add(operation.name, where, world_.events(), queue.stream.get());
    queue.last = {};
    return;
  }
  const Event begin = here(queue);
  kernel(*queue.device);
  queue.backlog.add(operation.name, where, world_.events(), queue.stream.get());
  queue.last = {};
  span(begin, {here(queue)},
       [this, index = queue.index, name = operation.name, where, position = recorder_.position(queue.index),
        work = TraceCompute{.flop = operation.flop, .moved = operation.bytes}](double from, double to) {
         recorder_.busy(index, from, to, name, 0, where, position, work);
       });
}

// Memory --------------------------------------------------------------------------------------------------------------

Slice CudaRank::allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) {
  Queue& queue = calling(at.queue, where);
  auto block = new_block<GpuBlock>(at, count, dtype, category, *this, ++allocations_, where);
  if (block->bytes > 0) {
    queue.last = {};
    block->data = world_.allocate(block->bytes, category, queue.stream.get(), where);
    if (world_.options().poison)
      check(cudaMemsetAsync(block->data, 0xff, block->bytes, queue.stream.get()), "cudaMemsetAsync");
  }
  recorder_.allocated(at.queue, category, block->bytes);
  ++live_blocks_;
  return Slice(*block.release());
}

void CudaRank::use(Queue& queue, const Slice& slice) {
  if (!slice.block()) return;
  auto& block = static_cast<GpuBlock&>(*slice.block());
  if (block.queue == queue.index) return;  // ordered by that stream
  if (static_cast<std::size_t>(queue.index) >= queue.known.size()) queue.known.resize(queue.index + 1);
  const std::uint64_t position = ++queue.known[queue.index];
  for (GpuBlock::Use& use : block.elsewhere) {
    if (use.queue != queue.index) continue;
    use.position = position;
    return;
  }
  block.elsewhere.push_back({queue.index, position});
}

void CudaRank::release(Block& released) {
  auto& block = static_cast<GpuBlock&>(released);
  recorder_.released(block.queue, block.category, block.bytes);
  --live_blocks_;
  try {
    if (block.data) free(block);
  } catch (...) {  // in a destructor: fails the run instead
    world_.record_failure(*queues_[block.queue]);
  }
  delete &block;
}

/// Frees the block after every queue that used it; usually its own stream has already waited for them.
void CudaRank::free(GpuBlock& block) {
  Queue& queue = *queues_[block.queue];
  for (const GpuBlock::Use& use : block.elsewhere) {
    if (world_.failing()) break;  // the GPU has no work left
    if (static_cast<std::size_t>(use.queue) >= queue.known.size()) queue.known.resize(use.queue + 1);
    if (queue.known[use.queue] >= use.position) continue;
    queue.stream.wait(here(*queues_[use.queue]));
    queue.known[use.queue] = queues_[use.queue]->known[use.queue];
    queue.last = {};
  }
  world_.memory().free(block.data, queue.stream.get());
}

// Regions, synchronisation, clocks ------------------------------------------------------------------------------------

void CudaRank::open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) {
  Queue& queue = calling(at.queue, where);
  recorder_.open_region(at.queue, name, bytes, 0, where);
  queue.regions.push_back({here(queue), Range(name, rank_, bytes)});
}

void CudaRank::close_region(int index) {
  Queue& queue = *queues_[index];
  const int region = recorder_.leave_region(index);
  const OpenRegion open = std::move(queue.regions.back());
  queue.regions.pop_back();
  if (world_.failing()) return;
  try {
    span(open.begin, {here(queue)},
         [this, index, region](double from, double to) { recorder_.region_lasted(index, region, from, to); });
  } catch (...) {  // in a destructor: fails the run instead
    world_.record_failure(queue);
  }
}

void CudaRank::upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) {
  if (world_.stopped()) return;
  Queue& queue = calling(at.queue, where);
  use(queue, slice);
  queue.last = {};
  world_.staging().upload(slice.data(), values, slice.bytes(), queue.stream.get());
}

bool CudaRank::download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) {
  if (world_.stopped()) return false;
  Queue& queue = calling(at.queue, where);
  recorder_.read();
  copy_out(queue, slice, bytes, where);
  return true;
}

bool CudaRank::peek(CommunicatorKey at, const Slice& slice, void* bytes) {
  if (world_.stopped()) return false;
  copy_out(*queues_[at.queue], slice, bytes, Location::current());
  return true;
}

void CudaRank::copy_out(Queue& queue, const Slice& slice, void* bytes, Location where) {
  end_stretch(queue, here(queue));
  use(queue, slice);
  queue.last = {};
  world_.staging().download(bytes, slice.data(), slice.bytes(), queue.stream.get(),
                            [&](const Event& copied) { world_.pass(copied, where); });
  if (queue.device) queue.device->check_indices(where);
}

double CudaRank::now(int index) const {
  const Event event = here(*queues_[index]);
  world_.pass(event, Location::current());
  return world_.clock().seconds(event);
}

void CudaRank::note_end() {
  if (ended_) end_seconds_ = world_.clock().seconds(ended_);
}

double CudaRank::seconds(const RankLedger& ledger) const { return std::max(end_seconds_, ledger.queues[0].end); }

}  // namespace lockstep::cuda

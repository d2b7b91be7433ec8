#include "common/testing/fakes/cuda/emulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "common/testing/fakes/cuda/kernel_name.hpp"
#include "common/testing/fakes/cuda/order.hpp"
#include "common/testing/fakes/cuda/poison.hpp"
#include "common/testing/fakes/cuda/shared_arrays.hpp"
#include "common/testing/fakes/cuda/stacks.hpp"

alignas(16) __thread uint3 threadIdx, blockIdx;
alignas(16) __thread dim3 blockDim, gridDim;

namespace lockstep::fake {

namespace {

struct KernelError {
  std::string what;
  Site site;
};

/// State of a thread in the running block.
struct Thread {
  enum State { not_started, ready, in_warp, in_block, stopped, returned } state = not_started;
  int stack = 0;
  uint3 index;
  // Set while it waits:
  const char* name;
  Site site;
  unsigned mask;  // the lanes of a warp's meeting
  Together together;
  void* mine;
  // Copies in flight, and the ends of their groups:
  struct Copy {
    void* to;
    const void* from;
  };
  std::vector<Copy> copies;
  std::vector<std::size_t> groups;
  // Tokens of order.hpp: before(arrives) after what it has done, after(goes_on) before what it does next.
  char arrives, goes_on;
};

std::string brief(Site site) {
  const char* slash = std::strrchr(site.file, '/');
  return fmt::format("{}:{}", slash ? slash + 1 : site.file, site.line);
}

class Emulator {
 public:
  Emulator() : stacks_([this] { work(); }) { order::before(this); }
  ~Emulator() {
    order::after(this);
    for (void* context : contexts_) order::drop_context(context);
    order::drop_context(own_);
  }

  std::string run(const KernelLaunch& launch, const std::function<void()>& thread) {
    stream_ = order::current();
    const order::Inside emulator(own_);
    order::after(this);
    const std::string error = run_blocks(launch, thread);
    order::before(this);
    return error;
  }

  void meet_warp(unsigned mask, void* mine, Together together, const char* name, Site site);
  void meet_block(const char* name, Site site);
  [[noreturn]] void stop(std::string&& what, Site site);

  Thread& me() { return threads_[current_]; }

  void* shared() {
    const auto address = reinterpret_cast<std::uintptr_t>(shared_.data());
    return reinterpret_cast<void*>((address + kAlign - 1) / kAlign * kAlign);
  }

 private:
  static constexpr std::size_t kAlign = 128, kGuard = 1024;
  static constexpr std::size_t kWatchedStack = 16 * 1024;  // bytes of a stack that kernels use, with a margin

  std::string run_blocks(const KernelLaunch& launch, const std::function<void()>& thread) {
    launch_ = &launch;
    body_ = &thread;
    blockDim = launch.block;
    gridDim = launch.grid;
    threads_.assign(launch.block.x * launch.block.y * launch.block.z, {});
    ready_.resize(threads_.size());
    idle_.reserve(threads_.size() + 1);
    stacks_.reserve(threads_.size() + 1);
    anew_.assign(threads_.size() + 1, false);
    checked_ = launch.check_threads && order::watched();
    if (checked_) prepare_contexts();
    const auto known = shared_arrays_of_.find(launch.kernel);
    shared_arrays_ = known != shared_arrays_of_.end()
                         ? &known->second
                         : &shared_arrays_of_.emplace(launch.kernel, shared_arrays_of(launch.kernel)).first->second;
    shared_.resize(launch.shared_bytes + 2 * kAlign + kGuard);
    error_.clear();
    shuffle_blocks();
    for (const std::size_t i : order_of_blocks_) {
      const std::size_t x = launch.grid.x, y = launch.grid.y;
      blockIdx = {static_cast<unsigned>(i % x), static_cast<unsigned>(i / x % y), static_cast<unsigned>(i / x / y)};
      run_block();
      if (!error_.empty()) break;
    }
    return error_;
  }

  /// Shuffles the order of blocks; a GPU guarantees none.
  void shuffle_blocks() {
    const dim3 grid = launch_->grid;
    order_of_blocks_.resize(std::size_t{grid.x} * grid.y * grid.z);
    std::iota(order_of_blocks_.begin(), order_of_blocks_.end(), std::size_t{0});
    std::minstd_rand random(static_cast<std::minstd_rand::result_type>(launch_->order % 2147483646 + 1));
    for (std::size_t i = order_of_blocks_.size(); i > 1; --i)
      std::swap(order_of_blocks_[i - 1], order_of_blocks_[random() % i]);
  }

  /// Makes a context per thread. Contexts cost a megabyte each, so only the last stream's are kept.
  void prepare_contexts() {
    if (owner_ != stream_) {
      for (void* context : contexts_) order::drop_context(context);
      contexts_.clear();
      owner_ = stream_;
    }
    while (contexts_.size() < threads_.size()) contexts_.push_back(order::make_context());
    order::begins_anew(threads_.data(), threads_.size() * sizeof(Thread));  // nothing is ordered after earlier kernels
  }

  int count() const { return static_cast<int>(threads_.size()); }

  void run_block() {
    const dim3 block = launch_->block;
    int i = 0;
    for (unsigned z = 0; z < block.z; ++z) {
      for (unsigned y = 0; y < block.y; ++y) {
        for (unsigned x = 0; x < block.x; ++x, ++i) {
          threads_[i].state = Thread::not_started;
          threads_[i].index = {x, y, z};
          threads_[i].copies.clear();
          threads_[i].groups.clear();
        }
      }
    }
    next_ = returned_ = in_block_ = 0;
    first_ready_ = ready_count_ = 0;
    poison(shared(), launch_->shared_bytes + kGuard, Poison::shared);
    for (const SharedArray& array : *shared_arrays_) poison(array.data, array.bytes, Poison::shared);
    run_threads();
    if (error_.empty() && returned_ < count()) error_ = describe_stall();
    if (error_.empty() && !is_poison(static_cast<char*>(shared()) + launch_->shared_bytes, kGuard, Poison::shared)) {
      error_ = fmt::format("{}: it writes beyond its {} bytes of dynamic shared memory", where_block(),
                           launch_->shared_bytes);
    }
    if (!error_.empty()) abandon_threads();
  }

  void run_threads() {
    for (void* index : {static_cast<void*>(&threadIdx), static_cast<void*>(&blockIdx), static_cast<void*>(&blockDim),
                        static_cast<void*>(&gridDim)}) {
      order::begins_anew(index, 16);
    }
    order::begins_anew(shared(), (launch_->shared_bytes + kGuard) / 8 * 8);
    for (const SharedArray& array : *shared_arrays_) order::begins_anew(array.data, (array.bytes + 7) / 8 * 8);
    {
      const order::Inside stream(stream_);
      for (int i = 0; checked_ && i < count(); ++i) order::before(&threads_[i].goes_on);
    }
    stacks_.switch_to(idle_stack());
    const order::Inside stream(stream_);
    for (int i = 0; checked_ && i < count(); ++i) order::after(&threads_[i].arrives);
  }

  /// Unwinds the waiting threads.
  void abandon_threads() {
    for (int i = 0; i < count(); ++i) {
      if (threads_[i].state == Thread::stopped) stacks_.leave(threads_[i].stack);
      if (threads_[i].state != Thread::in_warp && threads_[i].state != Thread::in_block) continue;
      const order::Inside thread(checked_ ? contexts_[i] : stream_);
      stacks_.forget(threads_[i].stack);
    }
    stacks_.clear();
    idle_.clear();
  }

  /// The body of every stack: runs threads that have not started, one after another, then switches away.
  void work() {
    for (;;) {
      while (error_.empty() && next_ < count()) {
        current_ = next_++;
        me().stack = stacks_.running();
        begin_stack(stacks_.running());
        go_on();
        try {
          (*body_)();
        } catch (const KernelError& error) {
          error_ = fmt::format("{}: {}", where(error.site), error.what);
        }
        me().state = Thread::returned;
        if (checked_) order::before(&me().arrives);
        order::enter(own_);
        ++returned_;
      }
      idle_.push_back(stacks_.running());
      if (error_.empty() && ready_count_ > 0) {
        switch_to_ready();
      } else {
        stacks_.switch_to(Stacks::kOutside);
      }
    }
  }

  /// Tells ThreadSanitizer that accesses by earlier kernels, or threads, to this memory are unrelated.
  void begin_stack(int stack) {
    if (!watched_ || (anew_[stack] && !checked_)) return;
    anew_[stack] = true;
    order::begins_anew(stacks_.top(stack) - kWatchedStack, kWatchedStack);
  }

  int idle_stack() {
    if (idle_.empty()) return stacks_.add();
    const int stack = idle_.back();
    idle_.pop_back();
    return stack;
  }

  /// Suspends the current thread and runs others, those of its warp first, so that few stacks are in use.
  void give_way() {
    const int mine = current_;
    if (ready_count_ > 0) {
      switch_to_ready();
    } else if (next_ < count()) {
      stacks_.switch_to(idle_stack());
    } else {
      order::enter(own_);
      stacks_.switch_to(Stacks::kOutside);
    }
    current_ = mine;
    go_on();
  }

  void switch_to_ready() {
    const int thread = ready_[first_ready_];
    first_ready_ = (first_ready_ + 1) % ready_.size();
    --ready_count_;
    stacks_.switch_to(threads_[thread].stack);
  }

  void go_on() {
    Thread& self = me();
    self.state = Thread::ready;
    threadIdx = self.index;
    order::enter(checked_ ? contexts_[current_] : stream_);
    if (checked_) order::after(&self.goes_on);
  }

  void wait_in(Thread::State state, const char* name, Site site) {
    Thread& self = me();
    self.state = state;
    self.name = name;
    self.site = site;
    if (checked_) order::before(&self.arrives);
  }

  /// Called by the last thread to arrive: orders what it does now after everything that all have done …
  void after_arrivals(int first, int count, unsigned mask) {
    for (int i = 0; checked_ && i < count; ++i) {
      if (mask >> i % 32 & 1) order::after(&threads_[first + i].arrives);
    }
  }
  /// … and before everything that all do next.
  void before_they_go_on(int first, int count, unsigned mask) {
    for (int i = 0; checked_ && i < count; ++i) {
      if (mask >> i % 32 & 1) order::before(&threads_[first + i].goes_on);
    }
  }

  void wake(int thread) {
    threads_[thread].state = Thread::ready;
    if (thread != current_) ready_[(first_ready_ + ready_count_++) % ready_.size()] = thread;
  }

  std::string where_block() const {
    return fmt::format("kernel {}, block ({}, {}, {})", kernel_name(launch_->kernel), blockIdx.x, blockIdx.y,
                       blockIdx.z);
  }
  std::string where(Site site) {
    const uint3 i = me().index;
    return fmt::format("{}, thread ({}, {}, {}), {}", where_block(), i.x, i.y, i.z, brief(site));
  }
  std::string describe_stall() const;

  const KernelLaunch* launch_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  std::string error_;

  std::vector<Thread> threads_;
  int current_ = 0;         // the running thread
  int next_ = 0;            // the first thread that has not started
  int returned_ = 0;        // number of threads that have returned
  int in_block_ = 0;        // number of threads that wait for the block
  std::vector<int> ready_;  // ring buffer of threads that can continue, oldest first
  std::size_t first_ready_ = 0, ready_count_ = 0;
  std::vector<std::size_t> order_of_blocks_;
  std::vector<char> shared_;                                          // dynamic shared memory
  std::map<const void*, std::vector<SharedArray>> shared_arrays_of_;  // by kernel, for those that have run
  const std::vector<SharedArray>* shared_arrays_ = nullptr;

  const bool watched_ = order::watched();
  std::vector<bool> anew_;                   // by stack: the running kernel has begun it
  void* const own_ = order::make_context();  // context of the emulator itself (order.hpp)
  void* stream_ = nullptr;                   // context of the stream that runs
  bool checked_ = false;                     // each thread of the block has its own context (order.hpp)
  std::vector<void*> contexts_;              // those contexts
  void* owner_ = nullptr;                    // the stream whose kernels they are for
  Stacks stacks_;
  std::vector<int> idle_;  // stacks without a thread
};

void Emulator::meet_warp(unsigned mask, void* mine, Together together, const char* name, Site site) {
  const int first = current_ / 32 * 32, lane = current_ % 32;
  const int lanes = std::min(32, count() - first);
  if (!(mask >> lane & 1)) kernel_error(fmt::format("{} with a mask of {:#010x}, without this lane", name, mask), site);
  if (lanes < 32 && mask >> lanes) {
    kernel_error(fmt::format("{} with a mask of {:#010x}, but this warp has {} lanes", name, mask, lanes), site);
  }
  wait_in(Thread::in_warp, name, site);
  Thread& self = me();
  self.mask = mask;
  self.together = together;
  self.mine = mine;

  void* of_lane[32] = {};
  for (int i = lanes - 1; i >= 0; --i) {  // the last are the most likely to be missing
    if (!(mask >> i & 1)) continue;
    const Thread& other = threads_[first + i];
    if (other.state != Thread::in_warp || other.mask != mask) return give_way();
    of_lane[i] = other.mine;
  }
  for (int i = 0; i < lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    const Thread& other = threads_[first + i];
    if (other.together != together) {
      kernel_error(fmt::format("{}, while lane {} of this warp is in {} ({})", name, i, other.name, brief(other.site)),
                   site);
    }
  }
  after_arrivals(first, lanes, mask);
  together(of_lane, mask);
  before_they_go_on(first, lanes, mask);
  for (int i = 0; i < lanes; ++i) {
    if (mask >> i & 1) wake(first + i);
  }
}

void Emulator::meet_block(const char* name, Site site) {
  wait_in(Thread::in_block, name, site);
  if (++in_block_ < count()) return give_way();
  for (const Thread& other : threads_) {
    if (other.site.line != site.line || other.name != name) {
      kernel_error(fmt::format("{}, while thread ({}, {}, {}) is in {} ({})", name, other.index.x, other.index.y,
                               other.index.z, other.name, brief(other.site)),
                   site);
    }
  }
  after_arrivals(0, count(), ~0u);
  before_they_go_on(0, count(), ~0u);
  in_block_ = 0;
  for (int i = 0; i < count(); ++i) wake(i);
}

void Emulator::stop(std::string&& what, Site site) {
  if (stacks_.running() == Stacks::kOutside) {
    fmt::print(stderr, "fake GPU: {}: {}\n", brief(site), what);
    std::abort();
  }
  error_ = fmt::format("{}: {}", where(site), what);
  std::string().swap(what);  // its owner does not continue, so free it here
  me().state = Thread::stopped;
  order::enter(own_);
  stacks_.switch_to(Stacks::kOutside);
  std::abort();  // not reached
}

/// Describes a deadlock: which thread waits where, and how many have returned.
std::string Emulator::describe_stall() const {
  const auto waiting = std::find_if(threads_.begin(), threads_.end(), [](const Thread& thread) {
    return thread.state == Thread::in_warp || thread.state == Thread::in_block;
  });
  const int thread = static_cast<int>(waiting - threads_.begin());
  std::string others;
  int in_warp = 0, elsewhere = 0, returned = 0;
  for (const Thread& other : threads_) {
    returned += other.state == Thread::returned;
    in_warp += other.state == Thread::in_warp;
    elsewhere += other.state == Thread::in_block || other.state == Thread::in_warp;
  }
  const uint3 i = waiting->index;
  std::string text = fmt::format("{}: thread ({}, {}, {}) waits forever in {} ({})", where_block(), i.x, i.y, i.z,
                                 waiting->name, brief(waiting->site));
  if (waiting->state == Thread::in_warp) {
    const int first = thread / 32 * 32;
    text += fmt::format(" with mask {:#010x}", waiting->mask);
    for (int lane = 0; lane < 32 && first + lane < count(); ++lane) {
      const Thread& other = threads_[first + lane];
      if (!(waiting->mask >> lane & 1)) continue;
      if (other.state == Thread::returned) {
        return text + fmt::format(", but lane {} has returned", lane);
      }
      if (other.name != waiting->name || other.mask != waiting->mask) {
        return text + fmt::format(", but lane {} is in {} ({})", lane, other.name, brief(other.site));
      }
    }
    return text;
  }
  for (const Thread& other : threads_) {
    const uint3 o = other.index;
    if (other.state == Thread::returned) {
      return text + fmt::format(", but thread ({}, {}, {}) and {} others have returned", o.x, o.y, o.z, returned - 1);
    }
    if (other.state == Thread::in_warp) {
      return text +
             fmt::format(", but thread ({}, {}, {}) is in {} ({})", o.x, o.y, o.z, other.name, brief(other.site));
    }
  }
  return text;
}

/// One emulator per host thread.
Emulator& emulator() {
  static thread_local Emulator one;
  return one;
}

}  // namespace

void prepare_emulator() { (void)emulator(); }

std::string run_kernel(const KernelLaunch& launch, const std::function<void()>& thread) {
  return emulator().run(launch, thread);
}

void meet_warp(unsigned mask, void* mine, Together together, const char* name, Site site) {
  emulator().meet_warp(mask, mine, together, name, site);
}

void meet_block(const char* name, Site site) { emulator().meet_block(name, site); }

void* dynamic_shared_memory() { return emulator().shared(); }

void kernel_error(const std::string& what, Site site) { throw KernelError{what, site}; }

void stop_kernel(std::string&& what, Site site) { emulator().stop(std::move(what), site); }

void cp_async_16(void* shared, const void* global, Site site) {
  for (const void* address : {static_cast<const void*>(shared), global})
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
      kernel_error(
          fmt::format("cp_async_16 {} an address that is not a multiple of 16", address == shared ? "to" : "from"),
          site);
  emulator().me().copies.push_back({shared, global});
}

void cp_async_commit() {
  Thread& me = emulator().me();
  me.groups.push_back(me.copies.size());
}

void cp_async_wait(int groups) {
  Thread& me = emulator().me();
  const int due = static_cast<int>(me.groups.size()) - groups;
  if (due <= 0) return;
  const std::size_t end = me.groups[due - 1];
  for (std::size_t i = 0; i < end; ++i) std::memcpy(me.copies[i].to, me.copies[i].from, 16);
  me.copies.erase(me.copies.begin(), me.copies.begin() + static_cast<std::ptrdiff_t>(end));
  me.groups.erase(me.groups.begin(), me.groups.begin() + due);
  for (std::size_t& group : me.groups) group -= end;
}

}  // namespace lockstep::fake

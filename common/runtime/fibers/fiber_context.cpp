// Fibers on Boost.Context, with a guard page below each stack.
#include <cxxabi.h>

#include <boost/context/fiber.hpp>
#include <utility>

#include "common/runtime/fibers/fiber.hpp"
#include "common/runtime/fibers/stacks.hpp"

namespace lockstep {

namespace context = boost::context;

namespace {

/// The C++ runtime's state of the exceptions that a thread is handling and unwinding. The layout is that of the Itanium
/// C++ ABI.
struct Exceptions {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

/// A stack owned by someone else, in the form that Boost.Context accepts.
struct LentStack {
  context::stack_context stack;
  context::stack_context allocate() const { return stack; }
  void deallocate(context::stack_context&) const {}
};

class alignas(64) ContextFiber final : public Fiber {
 public:
  ContextFiber(Stacks& stacks, int color, std::function<void()> body)
      : color_(color), stacks_(stacks), body_(std::move(body)) {}

  void resume() override {
    if (!started_) begin();
    inside_ = std::move(inside_).resume();
  }
  void suspend() override {
    // Saved and cleared while another stack runs, so that handlers on several stacks may interleave.
    const Exceptions own = std::exchange(*of_thread_, {});
    outside_ = std::move(outside_).resume();
    *of_thread_ = own;
  }
  bool started() const override { return started_; }
  bool unwinding() const override { return of_thread_->uncaught > 0; }

 private:
  void begin() {
    started_ = true;
    of_thread_ = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
    const Stack stack = stacks_.take(color_);
    LentStack lent;
    lent.stack.sp = stack.top;
    lent.stack.size = stack.bytes;
    inside_ = context::fiber(std::allocator_arg, lent, [this](context::fiber&& scheduler) {
      outside_ = std::move(scheduler);
      body_();
      return std::move(outside_);
    });
  }

  context::fiber inside_;   // the body, while it is suspended
  context::fiber outside_;  // the scheduler, while the body runs
  Exceptions* of_thread_ = nullptr;
  bool started_ = false;
  int color_;
  Stacks& stacks_;
  std::function<void()> body_;
};

class ContextFibers final : public Fibers {
 public:
  ContextFibers(std::size_t stack_bytes, int expected, Arena& arena) : arena_(arena), stacks_(stack_bytes, expected) {}
  InArena<Fiber> make(int color, std::function<void()> body) override {
    return arena_.make<ContextFiber>(stacks_, color, std::move(body));
  }

 private:
  Arena& arena_;
  Stacks stacks_;
};

}  // namespace

std::unique_ptr<Fibers> make_fibers(std::size_t stack_bytes, int expected, Arena& arena) {
  return std::make_unique<ContextFibers>(stack_bytes, expected, arena);
}

}  // namespace lockstep

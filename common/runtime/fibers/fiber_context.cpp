// Fibers on Boost.Context, with a guard page below each stack.
#include <cxxabi.h>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

#include "common/runtime/fibers/fiber.hpp"

namespace lockstep {

namespace context = boost::context;

namespace {

/// A guarded stack whose top is moved down by a few cache lines.
class ColoredStack {
 public:
  ColoredStack(std::size_t bytes, int color)
      : stack_(bytes + kPage), shift_(static_cast<std::size_t>(color % kColors) * kLine) {}
  context::stack_context allocate() {
    context::stack_context allocated = stack_.allocate();
    allocated.sp = static_cast<char*>(allocated.sp) - shift_;
    allocated.size -= shift_;
    return allocated;
  }
  void deallocate(context::stack_context& allocated) {
    allocated.sp = static_cast<char*>(allocated.sp) + shift_;
    allocated.size += shift_;
    stack_.deallocate(allocated);
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr int kLine = 64;
  static constexpr int kColors = 24;  // within the first page, with room for a usual call depth
  context::protected_fixedsize_stack stack_;
  std::size_t shift_;
};

/// What the C++ runtime keeps of the exceptions that a thread is handling and unwinding. The layout is the Itanium C++
/// ABI's.
struct Exceptions {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

class alignas(64) ContextFiber final : public Fiber {
 public:
  ContextFiber(std::size_t stack_bytes, int color, std::function<void()> body)
      : stack_bytes_(stack_bytes), color_(color), body_(std::move(body)) {}

  void resume() override {
    if (!started_) begin();
    inside_ = std::move(inside_).resume();
  }
  void suspend() override {
    frame_ = static_cast<const char*>(__builtin_frame_address(0));
    // Taken off while another stack runs, so that handlers on several stacks may interleave.
    const Exceptions own = std::exchange(*of_thread_, {});
    outside_ = std::move(outside_).resume();
    *of_thread_ = own;
  }
  bool started() const override { return started_; }
  bool unwinding() const override { return of_thread_->uncaught > 0; }
  void fetch() const override {
    // The registers saved below the frame, and the frames of those who wait: what a few calls deep need.
    constexpr int kLine = 64, kBelow = 3, kAbove = 8;
    for (int line = -kBelow; frame_ && line < kAbove; ++line) __builtin_prefetch(frame_ + kLine * line, /*write=*/1);
  }

 private:
  void begin() {
    started_ = true;
    of_thread_ = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
    inside_ =
        context::fiber(std::allocator_arg, ColoredStack(stack_bytes_, color_), [this](context::fiber&& scheduler) {
          outside_ = std::move(scheduler);
          body_();
          return std::move(outside_);
        });
  }

  context::fiber inside_;        // the body, while it is suspended
  context::fiber outside_;       // the scheduler, while the body runs
  const char* frame_ = nullptr;  // while it is suspended
  Exceptions* of_thread_ = nullptr;
  bool started_ = false;
  std::size_t stack_bytes_;
  int color_;
  std::function<void()> body_;
};

}  // namespace

std::unique_ptr<Fiber> make_fiber(std::size_t stack_bytes, int color, std::function<void()> body) {
  return std::make_unique<ContextFiber>(stack_bytes, color, std::move(body));
}

}  // namespace lockstep

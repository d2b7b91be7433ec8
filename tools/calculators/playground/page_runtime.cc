// What the simulator needs in a page: fibers on Emscripten's, and no computer to look at. Only Emscripten has the
// header, so this is no .cpp, which other tools would read.
#include <emscripten/fiber.h>

#include <exception>
#include <memory>
#include <typeinfo>
#include <utility>

#include "common/runtime/fibers/fiber.hpp"
#include "common/support/host/host.hpp"

namespace lockstep {

namespace {

constexpr std::size_t kSavedBytes = 16 * 1024;  // of a suspended fiber's frames, which Asyncify copies

emscripten_fiber_t& scheduler() {
  static emscripten_fiber_t fiber;
  static char saved[kSavedBytes];
  static const bool made = (emscripten_fiber_init_from_current_context(&fiber, saved, kSavedBytes), true);
  static_cast<void>(made);
  return fiber;
}

class PageFiber final : public Fiber {
 public:
  PageFiber(std::size_t stack_bytes, std::function<void()> body) : stack_bytes_(stack_bytes), body_(std::move(body)) {}

  void resume() override {
    if (!stack_) begin();
    emscripten_fiber_swap(&scheduler(), &fiber_);
  }
  void suspend() override { emscripten_fiber_swap(&fiber_, &scheduler()); }
  bool started() const override { return stack_ != nullptr; }
  bool unwinding() const override { return std::uncaught_exceptions() > 0; }

 private:
  void begin() {
    stack_ = std::make_unique<char[]>(stack_bytes_);
    saved_ = std::make_unique<char[]>(kSavedBytes);
    const auto body = [](void* self) {
      static_cast<PageFiber*>(self)->body_();
      static_cast<PageFiber*>(self)->suspend();  // for good: such a body must not return
    };
    emscripten_fiber_init(&fiber_, body, this, stack_.get(), stack_bytes_, saved_.get(), kSavedBytes);
  }

  emscripten_fiber_t fiber_{};
  std::unique_ptr<char[]> stack_, saved_;
  std::size_t stack_bytes_;
  std::function<void()> body_;
};

class PageFibers final : public Fibers {
 public:
  PageFibers(std::size_t stack_bytes, Arena& arena) : stack_bytes_(stack_bytes), arena_(arena) {}
  InArena<Fiber> make(int, std::function<void()> body) override {
    return arena_.make<PageFiber>(stack_bytes_, std::move(body));
  }

 private:
  std::size_t stack_bytes_;
  Arena& arena_;
};

}  // namespace

std::unique_ptr<Fibers> make_fibers(std::size_t stack_bytes, int /*expected*/, Arena& arena) {
  return std::make_unique<PageFibers>(stack_bytes, arena);
}

Host read_host(const std::string&, std::vector<int>) { return {}; }

}  // namespace lockstep

/// Emscripten's exceptions do not say which they are.
extern "C" std::type_info* __cxa_current_exception_type() {
  return const_cast<std::type_info*>(&typeid(std::exception));
}

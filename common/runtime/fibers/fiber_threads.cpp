// Fibers as threads that pass a baton. Slower, but ASan, TSan and gdb see ordinary threads.
#include <exception>
#include <semaphore>
#include <thread>

#include "common/runtime/fibers/fiber.hpp"

namespace lockstep {

namespace {

class ThreadFiber final : public Fiber {
 public:
  explicit ThreadFiber(std::function<void()> body) : body_(std::move(body)) {}
  ~ThreadFiber() override {
    if (thread_.joinable()) thread_.join();
  }

  void resume() override {
    if (!started_) begin();
    inside_.release();
    outside_.acquire();
  }
  void suspend() override {
    outside_.release();
    inside_.acquire();
  }
  bool started() const override { return started_; }
  bool unwinding() const override { return std::uncaught_exceptions() > 0; }

 private:
  void begin() {
    started_ = true;
    thread_ = std::thread([this] {
      inside_.acquire();
      body_();
      outside_.release();
    });
  }

  std::function<void()> body_;
  std::binary_semaphore inside_{0};
  std::binary_semaphore outside_{0};
  std::thread thread_;
  bool started_ = false;
};

class ThreadFibers final : public Fibers {
 public:
  explicit ThreadFibers(Arena& arena) : arena_(arena) {}
  InArena<Fiber> make(int, std::function<void()> body) override { return arena_.make<ThreadFiber>(std::move(body)); }

 private:
  Arena& arena_;
};

}  // namespace

std::unique_ptr<Fibers> make_fibers(std::size_t, int, Arena& arena) { return std::make_unique<ThreadFibers>(arena); }

}  // namespace lockstep

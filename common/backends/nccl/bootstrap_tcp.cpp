// A TCP port where rank 0 keeps everybody's values: needs no shared file system, and no MPI.
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "common/backends/nccl/bootstrap.hpp"
#include "common/backends/nccl/socket.hpp"
#include "common/error.hpp"

namespace lockstep::nccl {

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// On rank 0: the values, and a thread for each of the others, which asks until it leaves.
class Server final : public Store {
 public:
  Server(int port, int ranks, double seconds)
      : listening_(listen_at(port)), seconds_(seconds), expected_(ranks - 1), door_([this] { let_in(); }) {}

  ~Server() override {
    {
      std::unique_lock lock(mutex_);  // whoever has come has read all it wants before it leaves
      changed_.wait_until(lock, in_seconds(seconds_), [&] { return left_ == expected_; });
      closing_ = true;
      for (const Socket& guest : guests_) guest.shut_down();
    }
    changed_.notify_all();
    listening_.shut_down();
    door_.join();
    for (std::thread& each : threads_) each.join();
  }

  void set(const std::string& key, const std::string& value) override {
    std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }

  bool get(const std::string& key, std::string& value, double seconds) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, in_seconds(seconds), [&] { return closing_ || values_.count(key) != 0; }))
      return false;
    if (values_.count(key) == 0) return false;
    value = values_[key];
    return true;
  }

 private:
  void let_in() {
    for (int come = 0; come < expected_;) {
      Socket guest = accept_from(listening_, 0.2);
      std::lock_guard lock(mutex_);
      if (closing_) return;
      if (!guest) continue;
      ++come;
      guests_.push_back(std::move(guest));
      threads_.emplace_back([this, index = guests_.size() - 1] { serve(index); });
    }
  }

  void serve(std::size_t index) {
    const Socket* guest = nullptr;
    {
      std::lock_guard lock(mutex_);
      guest = &guests_[index];
    }
    std::string verb, key, value;
    while (guest->receive_text(verb) && guest->receive_text(key) && guest->receive_text(value)) {
      if (verb == "set") {
        set(key, value);
      } else {
        const bool found = get(key, value, std::stod(value));
        if (!guest->send_text(found ? "found" : "") || !guest->send_text(value)) break;
      }
    }
    std::lock_guard lock(mutex_);
    ++left_;
    changed_.notify_all();
  }

  Socket listening_;
  double seconds_;
  int expected_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::deque<Socket> guests_;
  std::vector<std::thread> threads_;
  int left_ = 0;
  bool closing_ = false;
  std::thread door_;
};

class Client final : public Store {
 public:
  Client(std::string host, int port, double seconds) : name_(fmt::format("tcp://{}:{}", host, port)) {
    const auto until = in_seconds(seconds);
    while (!(socket_ = connect_to(host, port, seconds))) {
      if (Clock::now() > until)
        throw Error(Verdict::fail, fmt::format("nobody answers at {} ({} waited {:g} s): rank 0 listens there; does it "
                                               "run, and does a firewall let others in?",
                                               name_, host_name(), seconds));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void set(const std::string& key, const std::string& value) override {
    if (!socket_.send_text("set") || !socket_.send_text(key) || !socket_.send_text(value)) lost();
  }
  bool get(const std::string& key, std::string& value, double seconds) override {
    std::string found;
    if (!socket_.send_text("get") || !socket_.send_text(key) || !socket_.send_text(std::to_string(seconds)) ||
        !socket_.receive_text(found) || !socket_.receive_text(value))
      lost();
    return found == "found";
  }

 private:
  [[noreturn]] void lost() const { throw Error(Verdict::fail, fmt::format("rank 0 at {} has gone", name_)); }

  std::string name_;
  Socket socket_;
};

}  // namespace

std::unique_ptr<Store> make_tcp_store(const std::string& host, int port, int rank, int ranks, double seconds) {
  if (rank == 0) return std::make_unique<Server>(port, ranks, seconds);
  return std::make_unique<Client>(host, port, seconds);
}

}  // namespace lockstep::nccl

// One rank of Gloo's all-reduce, in its own process; MPI's processes, which spin while they wait, sleep in the
// meantime. Started by library_gloo.cpp, with which it communicates over a socket, its standard input
// (gloo_socket.hpp):
//
//   gloo_rank RANK RANKS ELEMENTS WARM_UP SAMPLES BUDGET_SECONDS HOSTNAME
//
// HOSTNAME is the address to listen at; "-" for that of this host's name. GLOO_SOCKET_IFNAME names an interface
// instead, as in PyTorch.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>

#include "bench/programs/gloo_socket.hpp"
#include "common/support/host/host.hpp"

namespace lockstep::bench {
namespace {

constexpr int kSocket = 0;  // standard input

/// Store through which ranks exchange addresses. All ranks call `set` equally often, so one call is an all-gather,
/// which the parent process performs with MPI.
class SocketStore final : public gloo::rendezvous::Store {
 public:
  void set(const std::string& key, const std::vector<char>& data) override {
    write_message(kSocket, GlooMessage::address);
    write_text(kSocket, key);
    write_text(kSocket, {data.begin(), data.end()});
    for (auto count = read_number(kSocket); count > 0; --count) {
      const std::string of_rank = read_text(kSocket), value = read_text(kSocket);
      entries_[of_rank] = {value.begin(), value.end()};
    }
  }
  std::vector<char> get(const std::string& key) override { return entries_.at(key); }
  using Store::wait;
  void wait(const std::vector<std::string>&) override {}  // `set` has already received everyone's values

 private:
  std::map<std::string, std::vector<char>> entries_;
};

/// Gloo takes its store by reference, and since 2025 as a shared pointer.
template <typename Context, typename Device>
void connect_full_mesh(Context& context, std::shared_ptr<SocketStore> store, Device& device) {
  if constexpr (requires { context.connectFullMesh(store, device); })
    context.connectFullMesh(std::move(store), device);
  else
    context.connectFullMesh(*store, device);
}

std::shared_ptr<gloo::Context> connected(int rank, int ranks, const std::string& hostname) {
  gloo::transport::tcp::attr address;
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"))
    address.iface = interface;
  else if (hostname != "-")
    address.hostname = hostname;
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  auto device = gloo::transport::tcp::CreateDevice(address);
  if (ranks > 1) connect_full_mesh(*context, std::make_shared<SocketStore>(), device);
  return context;
}

/// A single rank has no messages, and Gloo no call for it.
void sum(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data) {
  if (data.empty() || context->size == 1) return;
  gloo::AllreduceOptions options(context);
  options.setOutput(data.data(), data.size());  // also the input
  options.setReduceFunction(
      [](void* total, const void* a, const void* b, std::size_t count) { gloo::sum<float>(total, a, b, count); });
  gloo::allreduce(options);
}

/// Seconds of one sum on this rank, after a barrier.
double timed(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data) {
  if (context->size > 1) {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  }
  const auto begin = std::chrono::steady_clock::now();
  sum(context, data);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Small whole numbers, so that any order of additions gives the same sum.
float input(int rank, std::size_t element) { return static_cast<float>(rank % 7 + static_cast<int>(element % 5)); }

bool sums_right(const std::shared_ptr<gloo::Context>& context, std::size_t elements) {
  std::vector<float> data(elements);
  for (std::size_t i = 0; i < elements; ++i) data[i] = input(context->rank, i);
  sum(context, data);
  for (std::size_t i = 0; i < elements; ++i) {
    float expected = 0;
    for (int rank = 0; rank < context->size; ++rank) expected += input(rank, i);
    if (data[i] != expected) return false;
  }
  return true;
}

int measure(const std::vector<std::string>& arguments) {
  const auto number = [&](std::size_t i) { return std::stoi(arguments.at(i)); };
  const auto context = connected(number(0), number(1), arguments.at(6));
  const std::size_t elements = std::stoul(arguments.at(2));
  const bool right = sums_right(context, elements);
  std::vector<float> data(elements, 0.0f);  // so that repeated sums stay finite
  double seconds = timed(context, data);
  for (int i = 0; i < number(3); ++i) seconds = timed(context, data);
  std::vector<float> of_all{static_cast<float>(seconds)};  // so that every rank takes the same number of samples
  sum(context, of_all);
  const double affordable = std::stod(arguments.at(5)) / std::max(1e-9, static_cast<double>(of_all[0]) / context->size);
  const int samples = std::min(number(4), std::max(5, static_cast<int>(std::min(affordable, 1e6))));
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) times.push_back(timed(context, data));
  write_message(kSocket, GlooMessage::samples);
  write_number(kSocket, right ? 1 : 0);
  write_number(kSocket, times.size());
  write_bytes(kSocket, times.data(), times.size() * sizeof(double));
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  try {
    lockstep::die_with_parent();
    return measure({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    try {
      write_message(kSocket, GlooMessage::error);
      write_text(kSocket, error.what());
    } catch (const std::exception&) {  // the parent has gone
    }
    return 1;
  }
}

#include "common/backends/nccl/bootstrap.hpp"

#include <fmt/format.h>

#include <charconv>

#include "common/error.hpp"

namespace lockstep::nccl {

namespace {

class Alone final : public Bootstrap {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override { return {mine}; }
};

class StoreBootstrap final : public Bootstrap {
 public:
  StoreBootstrap(std::unique_ptr<Store> store, const Environment& environment)
      : store_(std::move(store)), environment_(environment) {}
  int rank() const override { return environment_.rank; }
  int size() const override { return environment_.ranks; }

  std::vector<std::string> all_gather(const std::string& mine) override {
    const int round = rounds_++;
    store_->set(fmt::format("{}.{}", round, rank()), mine);
    std::vector<std::string> all(size());
    for (int from = 0; from < size(); ++from)
      if (!store_->get(fmt::format("{}.{}", round, from), all[from], environment_.timeout_seconds))
        throw Error(Verdict::fail, fmt::format("rank {} waited {:g} s at {} for rank {} of {}, which has not come",
                                               rank(), environment_.timeout_seconds, environment_.store, from, size()));
    return all;
  }

 private:
  std::unique_ptr<Store> store_;
  Environment environment_;
  int rounds_ = 0;
};

struct Address {
  std::string host;
  int port = 0;
};

[[noreturn]] void bad_store(const std::string& text) {
  throw Error(Verdict::usage,
              fmt::format("LOCKSTEP_STORE={}: tcp://HOST:PORT or file:///FOLDER, where all processes meet", text));
}

Address parse_address(const std::string& store, const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) bad_store(store);
  Address address{.host = text.substr(0, colon)};
  const char *begin = text.data() + colon + 1, *last = text.data() + text.size();
  auto [end, error] = std::from_chars(begin, last, address.port);
  if (error != std::errc{} || end != last || address.port < 1 || address.port > 65535) bad_store(store);
  return address;
}

}  // namespace

std::unique_ptr<Bootstrap> make_store_bootstrap(const Environment& e) {
  constexpr std::string_view tcp = "tcp://", file = "file://";
  std::unique_ptr<Store> store;
  if (e.store.starts_with(tcp)) {
    const Address address = parse_address(e.store, e.store.substr(tcp.size()));
    store = make_tcp_store(address.host, address.port, e.rank, e.ranks, e.timeout_seconds);
  } else if (e.store.starts_with(file) && e.store.size() > file.size() + 1 && e.store[file.size()] == '/') {
    store = make_file_store(e.store.substr(file.size()), e.rank, e.ranks);
  } else {
    bad_store(e.store);
  }
  return std::make_unique<StoreBootstrap>(std::move(store), e);
}

std::unique_ptr<Bootstrap> make_bootstrap(const Environment& environment) {
  if (environment.ranks > 1 && !environment.store.empty()) return make_store_bootstrap(environment);
  if (environment.mpi)
    if (auto mpi = make_mpi_bootstrap()) {
      if (mpi->size() == environment.ranks) return mpi;
      throw Error(Verdict::usage,
                  fmt::format("{} processes were started, but MPI knows of {}: mpirun belongs to another MPI library "
                              "than the program",
                              environment.ranks, mpi->size()));
    }
  if (environment.ranks == 1) return std::make_unique<Alone>();
  throw Error(
      Verdict::usage,
      fmt::format("this is rank {} of {} (says {}), but it has no way to find the others: set LOCKSTEP_STORE to "
                  "tcp://HOST:PORT, where rank 0 can listen, or to file:///FOLDER that all see; launch/local.sh "
                  "and launch/srun.sh do",
                  environment.rank, environment.ranks, environment.launcher));
}

}  // namespace lockstep::nccl

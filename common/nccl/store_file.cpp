// A folder that all processes see, one file a value: on one host, or on a file system that hosts share.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/error.hpp"
#include "common/nccl/bootstrap.hpp"

namespace lockstep::nccl {

namespace {

namespace fs = std::filesystem;

class FileStore final : public Store {
 public:
  FileStore(std::string folder, int rank, int ranks, double seconds)
      : folder_(std::move(folder)), rank_(rank), ranks_(ranks), seconds_(seconds) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!fs::is_directory(folder_))
      throw Error(Verdict::usage,
                  fmt::format("LOCKSTEP_STORE: cannot make the folder {}: {}", folder_.string(), error.message()));
    if (fs::exists(file("0." + std::to_string(rank))))
      throw Error(Verdict::usage, fmt::format("LOCKSTEP_STORE: {} was used before: remove it, or name another folder",
                                              folder_.string()));
  }

  /// Rank 0 removes the folder when nobody needs it any more.
  ~FileStore() override {
    try {
      set("end." + std::to_string(rank_), "");
      if (rank_ != 0) return;
      std::string ignored;
      for (int rank = 0; rank < ranks_; ++rank)
        if (!get("end." + std::to_string(rank), ignored, seconds_)) return;
      fs::remove_all(folder_);
    } catch (const std::exception&) {
      // It stays: the next run in it says what to do.
    }
  }

  void set(const std::string& key, const std::string& value) override {
    const fs::path whole = file(key), part = file(key + ".part");
    std::ofstream out(part, std::ios::binary);
    out << value;
    out.close();
    if (!out) throw Error(Verdict::fail, fmt::format("LOCKSTEP_STORE: cannot write {}", part.string()));
    fs::rename(part, whole);
  }

  bool get(const std::string& key, std::string& value, double seconds) override {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
      std::ifstream in(file(key), std::ios::binary);
      if (in) {
        value.assign(std::istreambuf_iterator<char>(in), {});
        return true;
      }
      if (Clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  fs::path file(const std::string& key) const { return folder_ / key; }

  fs::path folder_;
  int rank_, ranks_;
  double seconds_;
};

}  // namespace

std::unique_ptr<Store> make_file_store(const std::string& folder, int rank, int ranks, double seconds) {
  return std::make_unique<FileStore>(folder, rank, ranks, seconds);
}

}  // namespace lockstep::nccl

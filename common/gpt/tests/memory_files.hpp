// A file system in memory that a test can stop between any two operations, or in the middle of a write. After a crash
// the files are either as every process saw them (a killed process), or any mixture with the synced state (a power
// failure): names created, changed or removed since the last sync of their directory may have their earlier state.
#pragma once

#include <fmt/core.h>

#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>

#include "common/error.hpp"
#include "common/gpt/checkpoint/files.hpp"

namespace lockstep::checkpoint {

class MemoryFiles final : public Files {
 public:
  struct Crash : std::runtime_error {
    Crash() : std::runtime_error("the computer is gone") {}
  };

  /// Makes the operation with this number, counted from 0, and all after it throw Crash. A write counts as two.
  void crash_at(std::size_t operation) { left_ = operation; }
  /// Makes writes fail when all files together would exceed so many bytes.
  void set_room(std::optional<std::size_t> bytes) { room_ = bytes; }

  /// Continues after a crash. Each directory has, at random, its last synced or its last visible state; without a
  /// generator the latter.
  void recover(std::mt19937* power_loss = nullptr) {
    left_.reset();
    for (auto& [number, node] : nodes_)
      if (power_loss && (*power_loss)() % 2 == 0)
        node.names = node.safe;
      else
        node.safe = node.names;
  }

  /// Returns the contents of a file, for a test to corrupt.
  std::string& contents(const std::string& path) { return nodes_.at(find(path)).data; }

  void make_directory(const std::string& path) override {
    const Operation here(*this);
    std::string so_far;
    for (const std::string& name : parts(path)) {
      const int parent = find(so_far);
      so_far += "/" + name;
      if (!nodes_[parent].names.contains(name)) nodes_[parent].names[name] = make();
    }
  }
  void write(const std::string& path, std::initializer_list<std::string_view> pieces) override {
    std::string all;
    for (const std::string_view piece : pieces) all += piece;
    int file = 0;
    {
      const Operation here(*this);
      nodes_.at(find(parent(path))).names[leaf(path)] = file = make();
      const std::size_t room = room_ ? *room_ - std::min(*room_, used()) : all.size();
      nodes_[file].data = all.substr(0, std::min(room, all.size() / 2));
      if (room < all.size()) throw Error(Verdict::fail, fmt::format("cannot write {}: No space left on device", path));
    }
    const Operation here(*this);
    nodes_[file].data = all;
  }
  void sync_directory(const std::string& path) override {
    const Operation here(*this);
    Node& node = nodes_.at(find(path));
    node.safe = node.names;
  }
  void rename(const std::string& from, const std::string& to) override {
    const Operation here(*this);
    const int node = find(from);
    if (exists_here(to) && !nodes_[find(to)].names.empty())
      throw Error(Verdict::fail, fmt::format("cannot rename to {}: Directory not empty", to));
    nodes_.at(find(parent(from))).names.erase(leaf(from));
    nodes_.at(find(parent(to))).names[leaf(to)] = node;
  }
  /// One operation for each name, like the operating system.
  void remove(const std::string& path) override {
    for (const std::string& name : list(path)) remove(path + "/" + name);
    const Operation here(*this);
    if (exists_here(path)) nodes_.at(find(parent(path))).names.erase(leaf(path));
  }
  bool exists(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return exists_here(path);
  }
  std::vector<std::string> list(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    if (exists_here(path))
      for (const auto& [name, node] : nodes_.at(find(path)).names) names.push_back(name);
    return names;
  }
  std::string read(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return nodes_.at(find(path)).data;
  }
  /// No other process sees these files, so the lock is free.
  std::unique_ptr<Lock> lock(const std::string& directory) override {
    struct Held final : Lock {
      bool held() override { return true; }
    };
    make_directory(directory);
    return std::make_unique<Held>();
  }

 private:
  struct Node {
    std::string data;
    std::map<std::string, int> names, safe;  // a directory's: now, and at its last sync
  };

  /// Serialises operations; throws from the crash on.
  class Operation {
   public:
    explicit Operation(MemoryFiles& files) : lock_(files.mutex_) {
      if (!files.left_) return;
      if (*files.left_ == 0) throw Crash();
      --*files.left_;
    }

   private:
    std::lock_guard<std::mutex> lock_;
  };

  static std::vector<std::string> parts(const std::string& path) {
    std::vector<std::string> names;
    std::string name;
    for (const char letter : path + "/")
      if (letter != '/')
        name += letter;
      else if (!name.empty())
        names.push_back(std::exchange(name, ""));
    return names;
  }
  static std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::string leaf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  int make() {
    const int number = static_cast<int>(nodes_.size());
    nodes_[number] = {};
    return number;
  }
  bool exists_here(const std::string& path) const { return number_of(path) >= 0; }
  int find(const std::string& path) const {
    const int number = number_of(path);
    if (number < 0) throw Error(Verdict::fail, fmt::format("cannot find {}: No such file or directory", path));
    return number;
  }
  int number_of(const std::string& path) const {
    int at = 0;
    for (const std::string& name : parts(path)) {
      const auto& names = nodes_.at(at).names;
      const auto entry = names.find(name);
      if (entry == names.end()) return -1;
      at = entry->second;
    }
    return at;
  }
  std::size_t used(int from = 0) const {
    std::size_t sum = nodes_.at(from).data.size();
    for (const auto& [name, node] : nodes_.at(from).names) sum += used(node);
    return sum;
  }

  std::mutex mutex_;
  std::map<int, Node> nodes_{{0, {}}};
  std::optional<std::size_t> left_, room_;
};

}  // namespace lockstep::checkpoint

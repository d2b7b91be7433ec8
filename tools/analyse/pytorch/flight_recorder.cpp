#include "tools/analyse/pytorch/flight_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/columns.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep::pytorch {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("flight recorder {}: {}", path, why));
}

int rank_of(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const std::size_t last = name.find_last_of("0123456789");
  if (last == name.npos) refuse(path, "its name does not say which rank's it is: call it rank0.json, or the like");
  const std::size_t before = name.find_last_not_of("0123456789", last);
  const std::size_t first = before == name.npos ? 0 : before + 1;
  const auto rank = parse_number<int>(std::string_view(name).substr(first, last + 1 - first));
  if (!rank) refuse(path, "its name does not say which rank's it is");
  return *rank;
}

/// "[0, 1]", or a list.
std::vector<int> ranks_of(const Json& given) {
  const Json list = given.is_string() ? Json::parse(given.get<std::string>()) : given;
  std::vector<int> ranks;
  for (const Json& rank : list) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// Sizes that the ranks of a collective must agree on. Ranks may give an all_to_all different sizes, and only the root
/// gathers or scatters.
std::string sizes_of(const Json& entry, const std::string& name) {
  if (name.find("all") != 0 && name.find("reduce") != 0 && name != "broadcast" && name[0] != '_') return "";
  if (name.find("all_to_all") != name.npos || name.find("alltoall") != name.npos) return "";
  std::string type;
  if (const Json* types = entry.find("input_dtypes"); types && types->is_array() && !types->empty())
    type = " " + types->at(0).get<std::string>();
  const Json* sizes = entry.find("input_sizes");
  if (!sizes || !sizes->is_array()) return "";
  return (sizes->size() == 1 ? sizes->at(0) : *sizes).dump() + type;
}

/// The innermost line of the program.
std::string line_of(const Json& entry) {
  const Json* frames = entry.find("frames");
  if (!frames || !frames->is_array()) return "";
  for (const Json& frame : *frames) {
    const std::string file = frame.value("filename", "");
    if (file.empty() || file.find("/torch/") != file.npos || !file.ends_with(".py")) continue;
    return fmt::format("{}:{}", std::filesystem::path(file).filename().string(), frame.value("line", 0));
  }
  return "";
}

void take(FlightRecord& record, const Json& entry) {
  if (entry.value("is_p2p", false)) {
    ++record.messages;
    return;
  }
  const Json& group = entry.at("process_group");  // name, description
  std::string name = entry.at("profiling_name");  // "nccl:all_reduce"
  name = name.substr(name.find(':') + 1);
  GroupRecord& of_group = record.groups[group.at(0)];
  of_group.description = group.at(1);
  const bool done = entry.value("retired", false);
  of_group.collectives[entry.at("collective_seq_id")] = {.name = name,
                                                         .sizes = sizes_of(entry, name),
                                                         .state = done ? "completed" : entry.value("state", ""),
                                                         .where = line_of(entry)};
}

/// A group's findings.
class Comparer {
 public:
  Comparer(const Flight& flight, const std::string& group) : group_(group) {
    for (const FlightRecord& rank : flight.ranks) {
      const auto found = rank.groups.find(group);
      if (found != rank.groups.end()) {
        by_rank_[rank.rank] = &found->second;
        members_.insert(found->second.members.begin(), found->second.members.end());
      }
    }
    for (const FlightRecord& rank : flight.ranks)  // a member that has begun nothing
      if (members_.contains(rank.rank)) by_rank_.try_emplace(rank.rank, nullptr);
    for (const auto& [rank, record] : by_rank_)
      if (record && !record->collectives.empty()) {
        first_ = std::max(first_, record->collectives.begin()->first);
        last_ = std::max(last_, record->collectives.rbegin()->first);
        description_ = record->description;
      }
  }

  std::vector<int> absent() const {
    std::vector<int> ranks;
    for (int rank : members_)
      if (!by_rank_.contains(rank)) ranks.push_back(rank);
    return ranks;
  }

  /// The first finding in what the ring buffers still have of all ranks.
  std::optional<Finding> first_finding() const {
    for (long number = first_; number <= last_; ++number) {
      std::map<int, const Recorded*> in;
      std::vector<int> missing;
      for (const auto& [rank, record] : by_rank_) {
        if (record && record->collectives.contains(number))
          in[rank] = &record->collectives.at(number);
        else
          missing.push_back(rank);
      }
      if (in.empty()) continue;
      if (auto different = mismatch(number, in)) return different;
      if (!missing.empty()) return is_missing(number, in, missing);
      if (auto pending = unfinished(number, in)) return pending;
    }
    return std::nullopt;
  }

 private:
  static std::string what(const Recorded& c) { return c.sizes.empty() ? c.name : c.name + " of " + c.sizes; }
  static std::string ranks(const std::vector<int>& all) {
    return fmt::format("{} {}", all.size() == 1 ? "rank" : "ranks", fmt::join(all, ", "));
  }
  Finding finding(long number, const char* kind, const std::string& text) const {
    return {group_, number, kind, fmt::format("collective {} of {}: {}", number, name(), text)};
  }
  std::string name() const { return description_.empty() ? "process group " + group_ : description_; }

  /// Ranks that do the same, and where.
  std::map<std::string, std::vector<int>> alike(const std::map<int, const Recorded*>& in) const {
    std::map<std::string, std::vector<int>> kinds;
    for (const auto& [rank, c] : in) kinds[what(*c) + (c->where.empty() ? "" : " at " + c->where)].push_back(rank);
    return kinds;
  }

  std::optional<Finding> mismatch(long number, const std::map<int, const Recorded*>& in) const {
    const Recorded& expected = *in.begin()->second;
    if (std::all_of(in.begin(), in.end(), [&](auto& one) { return what(*one.second) == what(expected); })) return {};
    std::vector<std::string> parts;
    for (const auto& [kind, of] : alike(in))
      parts.push_back(fmt::format("{} {} {}", ranks(of), of.size() == 1 ? "runs" : "run", kind));
    return finding(number, "MISMATCH", fmt::format("{}.", fmt::join(parts, ", ")));
  }

  Finding is_missing(long number, const std::map<int, const Recorded*>& in, const std::vector<int>& missing) const {
    std::vector<int> there;
    for (const auto& [rank, c] : in) there.push_back(rank);
    const Recorded& c = *in.begin()->second;
    std::string text =
        fmt::format("{} {} in {}{}, {} not.", ranks(there), there.size() == 1 ? "is" : "are", what(c),
                    c.where.empty() ? "" : " at " + c.where, ranks(missing) + (missing.size() == 1 ? " is" : " are"));
    for (int rank : missing) {
      const GroupRecord* record = by_rank_.at(rank);
      if (!record || record->collectives.empty()) {
        text += fmt::format(" Rank {} has begun none.", rank);
        continue;
      }
      const auto& [last, before] = *record->collectives.rbegin();
      text += fmt::format(" Rank {}'s last is {}, {}{}, {}.", rank, last, what(before),
                          before.where.empty() ? "" : " at " + before.where,
                          before.state == "completed" ? "completed" : "not completed");
    }
    return finding(number, "MISSING", text);
  }

  std::optional<Finding> unfinished(long number, const std::map<int, const Recorded*>& in) const {
    std::map<std::string, std::vector<int>> states;
    for (const auto& [rank, c] : in) states[c->state].push_back(rank);
    if (states.size() == 1 && states.begin()->first == "completed") return {};
    std::vector<std::string> parts;
    for (const auto& [state, of] : states) parts.push_back(fmt::format("{} on {}", state, ranks(of)));
    const std::string cause =
        states.size() > 1 && states.contains("scheduled") && !states.contains("completed")
            ? " Where it is only scheduled, earlier work of that rank's GPU has not ended."
            : " Nobody is missing, and all do the same: look at the network, and at the last messages of NCCL.";
    return finding(number, "UNFINISHED",
                   fmt::format("all ranks are in {}: {}.{}", what(*in.begin()->second), fmt::join(parts, ", "), cause));
  }

  std::string group_, description_;
  std::map<int, const GroupRecord*> by_rank_;  // null: nothing begun
  std::set<int> members_;
  long first_ = 0, last_ = -1;
};

}  // namespace

bool is_flight_record(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(16384, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head.starts_with("\x80") || head.find("\"collective_seq_id\"") != head.npos ||
         head.find("\"pg_status\"") != head.npos;
}

FlightRecord read_flight_record(const std::string& path) {
  const std::string text = read_file(path);
  if (text.starts_with("\x80"))
    refuse(path, fmt::format("it is a pickle: python3 -c \"import json, pickle; json.dump(pickle.load(open('{0}', "
                             "'rb')), open('{0}.json', 'w'))\" makes JSON of it",
                             path));
  FlightRecord record{.file = path, .rank = rank_of(path)};
  try {
    const Json document = Json::parse(text);
    for (const Json& entry : document.at("entries")) take(record, entry);
    if (const Json* groups = document.find("pg_config"))
      for (auto& [name, group] : record.groups) {
        const Json* config = groups->find(name);
        if (!config && groups->size() == 1) config = &groups->items().front().value;  // Gloo calls the default one ""
        if (const Json* ranks = config ? config->find("ranks") : nullptr) group.members = ranks_of(*ranks);
      }
  } catch (const JsonError& error) {
    refuse(path,
           fmt::format("this is not a dump of PyTorch's flight recorder, or it was cut short ({})", error.what()));
  }
  return record;
}

Flight compare(std::vector<FlightRecord> ranks) {
  Flight flight{.ranks = std::move(ranks)};
  std::sort(flight.ranks.begin(), flight.ranks.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
  for (std::size_t i = 1; i < flight.ranks.size(); ++i)
    if (flight.ranks[i].rank == flight.ranks[i - 1].rank)
      throw Error(Verdict::usage, fmt::format("{} and {} are both of rank {}", flight.ranks[i - 1].file,
                                              flight.ranks[i].file, flight.ranks[i].rank));
  std::set<std::string> groups;
  std::set<int> absent;
  for (const FlightRecord& rank : flight.ranks)
    for (const auto& [name, group] : rank.groups) groups.insert(name);
  for (const std::string& group : groups) {
    const Comparer comparer(flight, group);
    for (int rank : comparer.absent()) absent.insert(rank);
    if (auto finding = comparer.first_finding()) flight.findings.push_back(std::move(*finding));
  }
  flight.absent.assign(absent.begin(), absent.end());
  return flight;
}

namespace {

struct Progress {
  long begun = 0, completed = 0;
};
Progress progress(const GroupRecord& group) {
  Progress done;
  for (const auto& [number, c] : group.collectives) {
    done.begun = number;
    if (c.state == "completed") done.completed = number;
  }
  return done;
}

}  // namespace

std::string format(const Flight& flight) {
  std::string out = fmt::format("PyTorch's flight recorder of {}\n\n{:<20} {:>5} {:>12} {:>15}\n",
                                counted(static_cast<int>(flight.ranks.size()), "rank"), "process group", "rank",
                                "last begun", "last completed");
  int messages = 0;
  for (const FlightRecord& rank : flight.ranks) {
    messages += rank.messages;
    for (const auto& [name, group] : rank.groups) {
      const Progress done = progress(group);
      out += fmt::format("{:<20} {:>5} {:>12} {:>15}\n", group.description.empty() ? name : group.description,
                         rank.rank, done.begun, done.completed);
    }
  }
  out += '\n';
  const auto say = [&out](const std::string& text) { out += fmt::format("{}\n", fmt::join(wrapped(text, 80), "\n")); };
  for (const Finding& finding : flight.findings) say(finding.kind + "  " + finding.text);
  if (flight.findings.empty()) say("All ranks have begun and completed the same collectives.");
  if (!flight.absent.empty())
    say(fmt::format("There is no file of {} {}.", flight.absent.size() == 1 ? "rank" : "ranks",
                    fmt::join(flight.absent, ", ")));
  if (messages > 0) say(fmt::format("Sends and receives were not compared: there are {}.", messages));
  return out;
}

std::vector<Row> rows(const Flight& flight) {
  std::vector<Row> all;
  for (const FlightRecord& rank : flight.ranks)
    for (const auto& [name, group] : rank.groups) {
      const Progress done = progress(group);
      all.emplace_back()
          .set("process_group", name)
          .set("rank", rank.rank)
          .set("last_begun", done.begun)
          .set("last_completed", done.completed);
    }
  for (const Finding& f : flight.findings)
    all.emplace_back()
        .set("process_group", f.group)
        .set("sequence", f.sequence)
        .set("finding", f.kind)
        .set("text", f.text);
  return all;
}

}  // namespace lockstep::pytorch

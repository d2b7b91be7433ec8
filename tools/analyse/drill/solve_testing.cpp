#include "tools/analyse/drill/solve_testing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <vector>

#include "common/analysis/diff.hpp"
#include "common/analysis/read_trace.hpp"
#include "common/analysis/why.hpp"
#include "common/gpt/pipeline/schedule.hpp"
#include "common/support/text/files.hpp"

namespace lockstep::drill {
namespace {

using Line = std::map<std::string, std::string>;
using Table = std::vector<Line>;

Table read_table(const std::string& path) {
  std::istringstream lines(read_file(path));
  const auto cells = [](const std::string& line) {
    std::vector<std::string> all;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) all.push_back(cell);
    return all;
  };
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = cells(line);
  Table table;
  while (std::getline(lines, line)) {
    const std::vector<std::string> values = cells(line);
    Line& row = table.emplace_back();
    for (std::size_t i = 0; i < std::min(names.size(), values.size()); ++i) row[names[i]] = values[i];
  }
  return table;
}

/// The lines of a table that agree in `field`, in the table's order of its values.
std::vector<Table> grouped(const Table& table, const std::string& field) {
  std::vector<Table> groups;
  for (const Line& line : table) {
    if (groups.empty() || groups.back().front().at(field) != line.at(field)) groups.emplace_back();
    groups.back().push_back(line);
  }
  return groups;
}

/// Among lines that should agree in `field`, the one that does not.
std::optional<Line> odd_one_out(const Table& lines, const std::string& field) {
  for (const Line& line : lines) {
    const auto same = std::count_if(lines.begin(), lines.end(), [&](const Line& other) {
      return other.count(field) == line.count(field) && (!line.count(field) || other.at(field) == line.at(field));
    });
    if (same == 1 && lines.size() > 2) return line;
  }
  return std::nullopt;
}

class Solver {
 public:
  explicit Solver(const std::string& folder)
      : folder_(folder),
        output_(read_file(folder + "/output.txt")),
        trace_(read_chrome_trace(folder + "/trace.json")),
        good_(read_chrome_trace(folder + "/good/trace.json")) {}

  Answer solve() const {
    if (stopped_with("MISMATCH")) return mismatch();
    if (stopped_with("DEADLOCK")) return deadlock();
    for (const auto& attempt :
         {&Solver::wrong_sum, &Solver::same_data, &Solver::norms, &Solver::too_often, &Solver::mesh, &Solver::schedule})
      if (const auto answer = (this->*attempt)()) return *answer;
    return slow();
  }

 private:
  bool stopped_with(std::string_view verdict) const {
    const auto line = output_.find("\nstopped   ");
    return line != output_.npos && output_.find(verdict, line) < output_.find('\n', line + 1);
  }

  Table table(const std::string& name) const { return read_table(folder_ + "/" + name); }

  /// The collective that a rank calls with other bytes than in the good run.
  Answer mismatch() const {
    const Table good = table("good/collectives.csv");
    const auto has = [&](const std::string& number, const Line& like) {
      return std::any_of(good.begin(), good.end(), [&](const Line& g) {
        return g.at("number") == number && g.at("rank") == like.at("rank") && g.at("bytes") == like.at("bytes");
      });
    };
    for (const Line& line : table("collectives.csv")) {
      const std::string& number = line.at("number");
      if (has(number, line)) continue;
      const bool is_next = has(std::to_string(std::stoi(number) + 1), line);  // the rank was early
      return {is_next ? "swapped-order" : "wrong-count", line.at("rank"), "all_reduce " + number, line.at("bytes")};
    }
    return {};
  }

  /// Regions of main that are steps of a schedule, in order.
  static std::vector<std::string> steps_of(const Trace& trace, int rank) {
    static const std::regex step("[FBIW][0-9]+");
    std::vector<const TraceEvent*> found;
    for (const TraceEvent& e : trace.events)
      if (e.region() && e.rank == rank && e.queue == 0 && std::regex_match(e.name, step)) found.push_back(&e);
    std::stable_sort(found.begin(), found.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
    std::vector<std::string> names;
    for (const TraceEvent* e : found) names.push_back(e->name);
    return names;
  }

  /// The rank that has done the last forward and is still asked for it.
  Answer deadlock() const {
    static const std::regex waits("on queue \"down[^\\n]*receives [0-9]+ bytes from rank ([0-9]+), which has not");
    std::smatch found;
    if (!std::regex_search(output_, found, waits)) return {};
    const std::vector<std::string> steps = steps_of(trace_, std::stoi(found[1]));
    const auto last = std::find_if(steps.rbegin(), steps.rend(), [](const std::string& s) { return s[0] == 'F'; });
    static const std::regex ended("\\nstep [0-9]+/");
    const auto count = std::distance(std::sregex_iterator(output_.begin(), output_.end(), ended), {});
    return {"lost-message", found[1], *last, std::to_string(count + 1)};
  }

  std::optional<Answer> wrong_sum() const {
    if (output_.find("data parallelism") == std::string::npos) return std::nullopt;
    for (const Table& ranks : grouped(table("collectives.csv"), "number"))
      if (const auto odd = odd_one_out(ranks, "result"))
        return Answer{"flipped-bit", odd->at("rank"), "all_reduce " + odd->at("number"), odd->at("step")};
    return std::nullopt;
  }

  /// Ranks that differ in one coordinate alone lie so far apart, by what the output says of the mesh.
  std::vector<std::pair<std::size_t, const char*>> axes() const {
    const auto is = [&](const char* words) { return output_.find(words) != std::string::npos; };
    if (is("4 tensor-parallel")) return {{1, "tp"}, {4, "dp"}};
    if (is("2 tensor-parallel")) return {{1, "tp"}, {2, "dp"}, {4, "pp"}};
    return {{1, is("pipeline") ? "pp" : "dp"}};
  }

  std::optional<Answer> norms() const {
    const Table first = grouped(table("steps.csv"), "step").front();
    const std::string& norm = first.front().at("gradient_norm");
    for (const auto& [apart, axis] : axes())
      if (first[apart].at("gradient_norm") != norm) return Answer{"norm-not-summed", "all", axis, norm};
    return std::nullopt;
  }

  /// Among two ranks whose losses are equal in the first step, the one whose loss was another in the good run.
  std::optional<Answer> same_data() const {
    if (axes().front().second != std::string_view("dp")) return std::nullopt;
    const Table first = grouped(table("steps.csv"), "step").front(),
                good = grouped(table("good/steps.csv"), "step").front();
    for (std::size_t i = 0; i < first.size(); ++i) {
      const std::string& loss = first[i].at("own_loss");
      const auto same = [&](const Line& line) { return line.at("own_loss") == loss; };
      if (std::count_if(first.begin(), first.end(), same) > 1 && loss != good[i].at("own_loss"))
        return Answer{"same-data", first[i].at("rank"), "data", loss};
    }
    return std::nullopt;
  }

  static std::ptrdiff_t sums_of_rank_0(const Trace& trace) {
    return std::count_if(trace.events.begin(), trace.events.end(),
                         [](const TraceEvent& e) { return e.region() && e.rank == 0 && e.name == "ring_all_reduce"; });
  }

  std::optional<Answer> too_often() const {
    if (sums_of_rank_0(trace_) == sums_of_rank_0(good_)) return std::nullopt;
    return Answer{"sync-in-no-sync", "all", "ring_all_reduce", table("ranks.csv").front().at("bytes_sent")};
  }

  /// All of a table's column.
  std::uint64_t sum_of(const std::string& name, const std::string& field) const {
    std::uint64_t sum = 0;
    for (const Line& line : table(name)) sum += std::stoull(line.at(field));
    return sum;
  }

  std::optional<Answer> mesh() const {
    const std::uint64_t bytes = sum_of("ranks.csv", "bytes_to_other_nodes");
    if (bytes == sum_of("good/ranks.csv", "bytes_to_other_nodes")) return std::nullopt;
    std::map<int, int> peers;  // to whom rank 0 sends in sums, and how often
    for (const TraceEvent& e : trace_.events)
      if (e.transfer() && e.rank == 0 && e.name.starts_with("ring_all_reduce"))
        for (const TraceMessage& m : e.transfer()->messages) peers[m.peer] += m.sends;
    const auto most =
        std::max_element(peers.begin(), peers.end(), [](auto& a, auto& b) { return a.second < b.second; });
    return Answer{"mesh-order", std::to_string(most->first), "ring_all_reduce", std::to_string(bytes)};
  }

  std::optional<Answer> schedule() const {
    const Table ranks = table("ranks.csv"), good = table("good/ranks.csv");
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::vector<std::string> steps = steps_of(trace_, static_cast<int>(rank)),
                                     before = steps_of(good_, static_cast<int>(rank));
      const auto [here, there] = std::mismatch(steps.begin(), steps.end(), before.begin(), before.end());
      if (here == steps.end()) continue;
      Answer answer{"", std::to_string(rank), *here, std::to_string(in_flight(steps))};
      const double peak = std::stod(ranks[rank].at("activation_peak_bytes")),
                   expected = std::stod(good[rank].at("activation_peak_bytes"));
      answer.kind = peak > expected ? "long-warm-up" : peak < expected ? "short-warm-up" : "crossed-microbatches";
      if (peak == expected) answer.evidence = first_other_loss();
      return answer;
    }
    return std::nullopt;
  }

  /// Forwards that have not had their backward, at most.
  static int in_flight(const std::vector<std::string>& steps) {
    int now = 0, most = 0;
    for (const std::string& step : steps) most = std::max(most, now += step[0] == 'F' ? 1 : -1);
    return most;
  }

  std::string first_other_loss() const {
    const Table now = table("steps.csv"), good = table("good/steps.csv");
    for (std::size_t i = 0; i < now.size(); ++i)
      if (now[i].at("loss") != good[i].at("loss")) return fmt::format("{:.5f}", std::stod(now[i].at("loss")));
    return "";
  }

  /// Slow: who computes longer than in the good run, and at what; or else loads longer.
  Answer slow() const {
    const analysis::Why now = analysis::why(trace_), before = analysis::why(good_);
    const auto most = [&](double analysis::RankUse::*seconds) {
      std::size_t rank = 0;
      const auto longer = [&](std::size_t r) { return now.use[r].*seconds - before.use[r].*seconds; };
      for (std::size_t r = 0; r < now.use.size(); ++r)
        if (longer(r) > longer(rank)) rank = r;
      return rank;
    };
    const std::size_t loads = most(&analysis::RankUse::loading), computes = most(&analysis::RankUse::arithmetic);
    if (now.use[loads].loading > before.use[loads].loading)
      return {"slow-loader", std::to_string(loads), "data", fmt::format("{:.3g} ms", 1e3 * now.use[loads].loading)};
    std::string operation;
    for (const analysis::Difference& d : analysis::diff(good_, trace_).differences)
      if (d.kind == TraceEvent::Kind::compute) {
        operation = d.name;
        break;
      }
    return {"straggler", std::to_string(computes), operation,
            fmt::format("{:.3g} ms", 1e3 * now.use[computes].arithmetic)};
  }

  std::string folder_, output_;
  Trace trace_, good_;
};

}  // namespace

Answer solve(const std::string& folder) { return Solver(folder).solve(); }

}  // namespace lockstep::drill

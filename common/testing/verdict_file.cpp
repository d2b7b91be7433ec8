// The JSON side of verdicts: the only file of the tests that includes the JSON library.
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/testing/verdict.hpp"

namespace lockstep::testing {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Judgement, id, verdict, message, test, passed, failed, seconds)

void write_judgements(const std::filesystem::path& file, const std::vector<Judgement>& judgements) {
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  auto half = file;
  half += ".part";
  {
    std::ofstream out(half);
    // A message may quote bytes of the student's; whatever is not UTF-8 is replaced, never a reason to lose the
    // verdict.
    auto text = nlohmann::json{{"verdicts", judgements}};
    out << text.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    if (!out.flush()) throw Error(Verdict::usage, "cannot write the verdicts to " + file.string());
  }
  std::filesystem::rename(half, file);
}

std::vector<Judgement> read_judgements(const std::filesystem::path& file) {
  std::ifstream in(file);
  auto json = nlohmann::json::parse(in, nullptr, false);
  if (!in || json.is_discarded()) throw Error(Verdict::usage, "cannot read the verdicts in " + file.string());
  return json.at("verdicts").get<std::vector<Judgement>>();
}

}  // namespace lockstep::testing

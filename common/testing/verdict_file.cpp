// The JSON side of verdicts.
#include <fmt/format.h>

#include <fstream>

#include "common/json/document.hpp"
#include "common/json/escape.hpp"
#include "common/testing/verdict.hpp"

namespace lockstep::testing {
namespace {

/// A message may quote bytes of the student's; whatever is not UTF-8 is replaced, never a reason to lose the verdict.
std::string row_of(const Judgement& j) {
  return fmt::format(
      "    {{\"id\": {}, \"verdict\": {}, \"message\": {}, \"test\": {}, \"passed\": {}, \"failed\": {}, \"seconds\": "
      "{}}}",
      lockstep::quoted(utf8(j.id)), lockstep::quoted(utf8(j.verdict)), lockstep::quoted(utf8(j.message)),
      lockstep::quoted(utf8(j.test)), j.passed, j.failed, j.seconds);
}

Judgement judgement_of(const Json& row) {
  return {.id = row.at("id"),
          .verdict = row.at("verdict"),
          .message = row.at("message"),
          .test = row.at("test"),
          .passed = row.at("passed"),
          .failed = row.at("failed"),
          .seconds = row.at("seconds")};
}

}  // namespace

void write_judgements(const std::filesystem::path& file, const std::vector<Judgement>& judgements) {
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  auto half = file;
  half += ".part";
  {
    std::ofstream out(half);
    out << "{\n  \"verdicts\": [";
    for (std::size_t i = 0; i < judgements.size(); ++i) out << (i == 0 ? "\n" : ",\n") << row_of(judgements[i]);
    out << "\n  ]\n}\n";
    if (!out.flush()) throw Error(Verdict::usage, "cannot write the verdicts to " + file.string());
  }
  std::filesystem::rename(half, file);
}

std::vector<Judgement> read_judgements(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<Judgement> judgements;
  try {
    const Json document = Json::parse(in);
    for (const Json& row : document.at("verdicts")) judgements.push_back(judgement_of(row));
  } catch (const JsonError&) {
    throw Error(Verdict::usage, "cannot read the verdicts in " + file.string());
  }
  return judgements;
}

}  // namespace lockstep::testing

// Verdicts as JSON.
#include <utility>
#include <vector>

#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "common/testing/verdict.hpp"

namespace lockstep::testing {
namespace {

Json list_of(const std::vector<std::string>& lines) {
  std::vector<Json> items;
  for (const std::string& line : lines) items.push_back(Json::of(line));
  return Json::list(std::move(items));
}

Json row_of(const Judgement& j) {
  return Json::object({{"id", Json::of(j.id)},
                       {"verdict", Json::of(j.verdict)},
                       {"message", Json::of(j.message)},
                       {"test", Json::of(j.test)},
                       {"passed", Json::of(j.passed)},
                       {"failed", Json::of(j.failed)},
                       {"seconds", Json::of(j.seconds)},
                       {"skipped", Json::of(j.skipped)},
                       {"left_out", Json::of(j.left_out)},
                       {"notes", list_of(j.notes)}});
}

Judgement judgement_of(const Json& row) {
  Judgement judgement{.id = row.at("id"),
                      .verdict = row.at("verdict"),
                      .message = row.at("message"),
                      .test = row.at("test"),
                      .passed = row.at("passed"),
                      .failed = row.at("failed"),
                      .seconds = row.at("seconds")};
  if (row.contains("skipped")) judgement.skipped = row.at("skipped");  // missing in older records
  if (row.contains("left_out")) judgement.left_out = std::string(row.at("left_out"));
  if (row.contains("notes"))
    for (const Json& line : row.at("notes")) judgement.notes.push_back(std::string(line));
  return judgement;
}

}  // namespace

void write_judgements(const std::filesystem::path& file, const std::vector<Judgement>& judgements) {
  make_folders_of(file.string());
  std::vector<Json> rows;
  for (const Judgement& judgement : judgements) rows.push_back(row_of(judgement));
  write_atomically(file.string(), Json::object({{"verdicts", Json::list(std::move(rows))}}).dump(2) + "\n");
}

std::vector<Judgement> read_judgements(const std::filesystem::path& file) {
  return parse_judgements(read_file(file.string()), file.string());
}

std::vector<Judgement> parse_judgements(const std::string& text, const std::string& name) {
  std::vector<Judgement> judgements;
  try {
    const Json document = Json::parse(text);
    for (const Json& row : document.at("verdicts")) judgements.push_back(judgement_of(row));
  } catch (const JsonError&) {
    throw Error(Verdict::usage, "cannot read the verdicts in " + name);
  }
  return judgements;
}

}  // namespace lockstep::testing

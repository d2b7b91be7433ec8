#include "common/support/json/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/support/json/escape.hpp"

namespace lockstep {
namespace {

/// All numbers, separated by `between`.
std::string joined(const std::vector<double>& numbers, const char* between) {
  std::string text;
  for (double number : numbers)
    text += (text.empty() ? "" : between) + (std::isfinite(number) ? fmt::format("{}", number) : "null");
  return text;
}

std::string json_value(const Row::Value& value) {
  struct Visitor {
    std::string operator()(double number) const { return std::isfinite(number) ? fmt::format("{}", number) : "null"; }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(std::uint64_t number) const { return fmt::format("{}", number); }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(const std::string& text) const { return lockstep::quoted(text); }
    std::string operator()(const std::vector<double>& numbers) const { return "[" + joined(numbers, ", ") + "]"; }
  };
  return std::visit(Visitor(), value);
}

std::string csv_value(const Row::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return csv_field(*text);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) return joined(*numbers, " ");
  std::string number = json_value(value);
  return number == "null" ? "" : number;
}

std::string json_row(const Row& row) {
  std::string text = "{";
  for (const Row::Field& field : row.fields())
    text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", lockstep::quoted(field.name), json_value(field.value));
  text += "}";
  return text;
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == text.npos) return text;
  std::string result = "\"";
  for (char letter : text) result += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return result + '"';
}

Row& Row::put(std::string name, Value value) {
  auto same = std::find_if(fields_.begin(), fields_.end(), [&](const Field& field) { return field.name == name; });
  if (same == fields_.end())
    fields_.push_back({std::move(name), std::move(value)});
  else
    same->value = std::move(value);
  return *this;
}

std::string results_json(const Context& context, std::span<const Row> rows) {
  Row versions;
  for (const auto& [library, version] : context.versions) versions.set(library, version);
  Row about;
  about.set("machine", context.machine).set("cores", context.cores).set("hardware_threads", context.hardware_threads);
  about.set("compiler", context.compiler).set("build", context.build);
  about.set("commit", context.commit).set("date", context.date).set("code", context.code);
  for (const Row::Field& field : context.more.fields())
    std::visit([&](const auto& value) { about.set(field.name, value); }, field.value);
  std::string head = json_row(about);
  head.pop_back();
  std::string text = fmt::format("{{\n\"context\": {}, \"versions\": {}}},\n\"rows\": [", head, json_row(versions));
  for (std::size_t i = 0; i < rows.size(); ++i) text += fmt::format("{}\n  {}", i ? "," : "", json_row(rows[i]));
  text += "\n]\n}\n";
  return text;
}

std::string results_csv(std::span<const Row> rows) {
  std::vector<std::string> columns;
  for (const Row& row : rows)
    for (const Row::Field& field : row.fields())
      if (std::find(columns.begin(), columns.end(), field.name) == columns.end()) columns.push_back(field.name);
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i) text += (i ? "," : "") + csv_field(columns[i]);
  text += '\n';
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i) text += ',';
      for (const Row::Field& field : row.fields())
        if (field.name == columns[i]) text += csv_value(field.value);
    }
    text += '\n';
  }
  return text;
}

void write_results(const std::string& path, const Context& context, std::span<const Row> rows) {
  write_atomically(path, results_json(context, rows));
}

void write_csv(const std::string& path, std::span<const Row> rows) { write_atomically(path, results_csv(rows)); }

}  // namespace lockstep

#include "common/gpt/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/error.hpp"
#include "common/runtime/convert.hpp"
#include "common/support/json/document.hpp"

namespace lockstep::checkpoint {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr std::size_t kLength = 8;           // bytes that hold the header's length
constexpr std::size_t kLongest = 100 << 20;  // limit for a header, the same as in the format's own library
constexpr const char* kFacts = "__metadata__";

[[noreturn]] void malformed(const std::string& path, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("{} {}", path, why));
}

std::size_t width_of(const std::string& type) {
  static const std::map<std::string, std::size_t> widths{{"F64", 8}, {"I64", 8}, {"U64", 8},  {"F32", 4}, {"I32", 4},
                                                         {"U32", 4}, {"F16", 2}, {"BF16", 2}, {"I16", 2}, {"U16", 2},
                                                         {"I8", 1},  {"U8", 1},  {"BOOL", 1}};
  const auto found = widths.find(type);
  return found == widths.end() ? 0 : found->second;
}

/// One tensor's entry in the header.
struct Entry {
  std::string name, type;
  std::vector<std::size_t> shape;
  std::size_t begin = 0, end = 0;  // bytes after the header
};

Entry entry_of(const Json::Member& member, const std::string& path) {
  Entry entry{member.name, member.value.at("dtype").get<std::string>(), {}, 0, 0};
  std::size_t bytes = width_of(entry.type);
  if (bytes == 0) malformed(path, fmt::format("has a tensor '{}' of an unknown type {}", entry.name, entry.type));
  for (const Json& size : member.value.at("shape")) {
    entry.shape.push_back(size.get<std::size_t>());
    if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes))
      malformed(path, fmt::format("has a tensor '{}' larger than any memory", entry.name));
  }
  const Json& places = member.value.at("data_offsets");
  entry.begin = places.at(0).get<std::size_t>();
  entry.end = places.at(1).get<std::size_t>();
  if (places.size() != 2 || entry.end < entry.begin || entry.end - entry.begin != bytes)
    malformed(path,
              fmt::format("gives tensor '{}' {} bytes where its shape needs {}", entry.name,
                          entry.end < entry.begin ? "less than no" : std::to_string(entry.end - entry.begin), bytes));
  return entry;
}

/// Returns the entries by position. Together they cover all `bytes` after the header.
std::vector<Entry> entries_of(const Json& header, std::size_t bytes, const std::string& path) {
  std::vector<Entry> entries;
  for (const Json::Member& member : header.items())
    if (member.name != kFacts) entries.push_back(entry_of(member, path));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::size_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) malformed(path, fmt::format("has a gap or an overlap before tensor '{}'", entry.name));
    at = entry.end;
  }
  if (at != bytes)
    malformed(path, fmt::format("was cut short or added to: after its header are {} bytes, not {}", bytes, at));
  return entries;
}

std::vector<float> values_of(const Entry& entry, const char* bytes) {
  const std::size_t count = (entry.end - entry.begin) / width_of(entry.type);
  std::vector<float> values;
  if (entry.type == "F32") {
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), bytes, count * sizeof(float));
  } else if (entry.type == "F16" || entry.type == "BF16") {
    values.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes + i * sizeof half, sizeof half);
      values[i] = entry.type == "F16" ? from_f16(half) : from_bf16(half);
    }
  }
  return values;
}

}  // namespace

std::string safetensors_text(const std::vector<NamedTensor>& tensors, const std::map<std::string, std::string>& facts) {
  std::vector<Json::Member> members, said;
  for (const auto& [name, text] : facts) said.push_back({name, Json::of(std::string_view(text))});
  if (!said.empty()) members.push_back({kFacts, Json::object(std::move(said))});
  std::size_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    std::vector<Json> shape;
    for (const std::size_t size : tensor.shape) shape.push_back(Json::of(size));
    const std::size_t end = at + tensor.values.size() * sizeof(float);
    members.push_back({tensor.name, Json::object({{"dtype", Json::of(std::string_view("F32"))},
                                                  {"shape", Json::list(std::move(shape))},
                                                  {"data_offsets", Json::list({Json::of(at), Json::of(end)})}})});
    at = end;
  }
  std::string header = Json::object(std::move(members)).dump();
  header.resize((header.size() + kLength - 1) / kLength * kLength, ' ');  // aligns the numbers
  const std::uint64_t length = header.size();
  std::string text(kLength, '\0');
  text.reserve(kLength + header.size() + at);
  std::memcpy(text.data(), &length, kLength);
  text += header;
  for (const NamedTensor& tensor : tensors)
    text.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
  return text;
}

std::vector<NamedTensor> parse_safetensors(const std::string& text, const std::string& path) {
  std::uint64_t length = 0;
  if (text.size() >= kLength) std::memcpy(&length, text.data(), kLength);
  if (length == 0 || length > kLongest || length > text.size() - kLength || text[kLength] != '{')
    malformed(
        path,
        "is not a safetensors file, or was cut short: the header that its first eight bytes announce is not in it");
  const std::size_t first = kLength + length;
  std::vector<NamedTensor> tensors;
  try {
    const Json header = Json::parse(text.substr(kLength, length));
    for (const Entry& entry : entries_of(header, text.size() - first, path))
      tensors.push_back({entry.name, entry.shape, values_of(entry, text.data() + first + entry.begin)});
  } catch (const JsonError& error) {
    malformed(path, fmt::format("has a header that is not a safetensors header: {}", error.what()));
  }
  return tensors;
}

}  // namespace lockstep::checkpoint

#include "common/gpt/data/token_file.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "common/error.hpp"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);

struct Format {
  std::uint32_t magic, version;
  std::size_t token_bytes, vocabulary;
};
constexpr Format kFormats[] = {{20240520, 1, sizeof(std::uint16_t), 50257},
                               {20240801, 7, sizeof(std::uint32_t), 128256}};

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("token file {}: {}", name, why));
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t place) {
  Number number;
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

/// Three numbers, then zeros up to the end of the header: no text begins like that.
bool has_header(std::string_view bytes) {
  return bytes.size() >= kHeaderBytes && bytes.substr(0, 12).find_first_not_of('\0') != bytes.npos &&
         bytes.substr(12, kHeaderBytes - 12).find_first_not_of('\0') == bytes.npos;
}

const Format* format_of(std::string_view bytes) {
  if (bytes.size() < sizeof(std::uint32_t)) return nullptr;
  for (const Format& format : kFormats)
    if (number_at<std::uint32_t>(bytes, 0) == format.magic) return &format;
  return nullptr;
}

}  // namespace

std::optional<TokenFile> TokenFile::in(std::string_view bytes, const std::string& name) {
  const Format* format = format_of(bytes);
  if (!format && has_header(bytes))
    refuse(name, fmt::format("its magic number is {}, and only {} (GPT-2's tokens) and {} (Llama 3's) are known",
                             number_at<std::uint32_t>(bytes, 0), kFormats[0].magic, kFormats[1].magic));
  if (!format) return std::nullopt;
  if (bytes.size() < kHeaderBytes)
    refuse(name, fmt::format("its header has {} bytes instead of {}", bytes.size(), kHeaderBytes));
  if (const auto version = number_at<std::uint32_t>(bytes, 4); version != format->version)
    refuse(name, fmt::format("is of version {}, and only version {} of this kind is known", version, format->version));
  const std::size_t count = number_at<std::uint32_t>(bytes, 8), held = bytes.size() - kHeaderBytes;
  if (held != count * format->token_bytes)
    refuse(name, fmt::format("says that it holds {} tokens of {} bytes, and {} bytes follow its header", count,
                             format->token_bytes, held));
  return TokenFile(name, format->vocabulary, format->token_bytes, bytes.substr(kHeaderBytes));
}

void TokenFile::read(std::size_t first, std::span<std::int32_t> into) const {
  for (std::size_t i = 0; i < into.size(); ++i) {
    const std::size_t place = first + i, byte = place * token_bytes_;
    const std::size_t token = token_bytes_ == sizeof(std::uint16_t) ? number_at<std::uint16_t>(tokens_, byte)
                                                                    : number_at<std::uint32_t>(tokens_, byte);
    if (token >= vocabulary_)
      refuse(name_, fmt::format("token {} is {}, and its tokenizer has {} tokens", place, token, vocabulary_));
    into[i] = static_cast<std::int32_t>(token);
  }
}

}  // namespace lockstep

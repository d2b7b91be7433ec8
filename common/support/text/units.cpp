#include "common/support/text/units.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "common/error.hpp"
#include "common/support/text/trim.hpp"

namespace lockstep {
namespace {

struct Unit {
  const char* name;
  double size;
};

constexpr std::array<Unit, 9> kByteUnits{{{"B", 1},
                                          {"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12}}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("\"{}\" is not a size: {}", text, why));
}

double unit_size(std::string_view unit, std::string_view whole) {
  if (unit.empty()) return 1;
  for (const Unit& known : kByteUnits)
    if (lower(std::string(unit)) == lower(known.name)) return known.size;
  if (unit.size() == 1 && std::string_view("kmgt").find(lower(std::string(unit))) != std::string_view::npos) {
    char letter = static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0])));
    refuse(whole, fmt::format("write {}iB for powers of 1024 or {}B for powers of 1000", letter, letter));
  }
  refuse(whole, fmt::format("unknown unit \"{}\"; use B, KiB, MiB, GiB, TiB or kB, MB, GB, TB", unit));
}

/// True if three digits suffice in decimal units: 25 MB, which is 23.8 MiB.
bool is_round(double bytes) {
  while (bytes >= 1000) bytes /= 10;
  return bytes == std::floor(bytes);
}

/// Formats value / unit with three significant digits: "1.23", "45.6", "789".
std::string three_digits(double value) {
  double size = std::fabs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
  std::string_view rest = trim(text);
  if (rest.empty()) refuse(text, "it is empty; write for example 4096, 64KiB or 1MB");
  if (rest.front() == '-') refuse(text, "it is negative");
  double number = 0;
  auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
  if (failure != std::errc()) refuse(text, "it does not begin with a number; write for example 4096, 64KiB or 1MB");
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  double bytes = number * unit_size(trim(rest), text);
  if (!(bytes < 9.2e18)) refuse(text, "it is more than 8 EiB");
  if (bytes != std::floor(bytes)) refuse(text, fmt::format("it is {} bytes, not a whole number", bytes));
  return static_cast<std::uint64_t>(bytes);
}

std::vector<std::uint64_t> parse_byte_sizes(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  if (auto colon = text.find(':'); colon != text.npos) {
    std::uint64_t size = parse_bytes(text.substr(0, colon)), last = parse_bytes(text.substr(colon + 1));
    if (size == 0 || size > last)
      refuse(text, "a range FIRST:LAST needs a first size above 0, and a last one that is not smaller");
    for (; size <= last; size *= 2) sizes.push_back(size);
    return sizes;
  }
  for (const std::string& size : split(text)) sizes.push_back(parse_bytes(size));
  return sizes;
}

std::string format_bytes(double bytes) {
  if (!std::isfinite(bytes)) return "?";
  double size = std::fabs(bytes);
  if (size < 1024 || (size < 10000 && std::fmod(size, 1024) != 0)) return fmt::format("{:.0f} B", bytes);
  const char* names[] = {"KiB", "MiB", "GiB", "TiB"};
  int index = 0;
  double value = bytes / 1024;
  for (; std::fabs(value) >= 1023.5 && index < 3; ++index) value /= 1024;
  if (value == std::floor(value) && std::fabs(value) < 1024) return fmt::format("{:.0f} {}", value, names[index]);
  if (!is_round(size)) return fmt::format("{} {}", three_digits(value), names[index]);
  const char* decimal[] = {"kB", "MB", "GB", "TB"};
  value = bytes / 1000;
  for (index = 0; std::fabs(value) >= 1000 && index < 3; ++index) value /= 1000;
  return fmt::format("{:g} {}", value, decimal[index]);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  double size = std::fabs(seconds);
  if (size == 0) return "0 s";
  if (size < 999.5e-9) return three_digits(seconds * 1e9) + " ns";
  if (size < 999.5e-6) return three_digits(seconds * 1e6) + " µs";
  if (size < 999.5e-3) return three_digits(seconds * 1e3) + " ms";
  if (size < 99.95) return three_digits(seconds) + " s";
  if (size < 99.95 * 60) return three_digits(seconds / 60) + " min";
  return three_digits(seconds / 3600) + " h";
}

std::string format_bandwidth(double bytes_per_second) {
  if (!std::isfinite(bytes_per_second)) return "?";
  const char* names[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  int index = 0;
  for (; std::fabs(bytes_per_second) >= 999.5 && index < 4; ++index) bytes_per_second /= 1000;
  return fmt::format("{} {}", three_digits(bytes_per_second), names[index]);
}

std::string format_parameters(double count) {
  if (count < 999'999.5) return fmt::format("{:.0f}", count);
  return count < 999.95e6 ? fmt::format("{:.4g} million", count / 1e6) : fmt::format("{:.4g} billion", count / 1e9);
}

}  // namespace lockstep

// Sizes and times as people write and read them. Every command line parses sizes here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// "4096", "64KiB", "1.5 MiB", "10MB": bytes. KiB, MiB, GiB, TiB are powers of 1024; kB (KB), MB, GB, TB of 1000;
/// letter case does not matter. Throws Error(usage) in one sentence for anything else: another unit, "64k" (which of
/// the two?), a negative or fractional number of bytes, more than 2^63.
std::uint64_t parse_bytes(std::string_view text);

/// Several sizes: "1KiB,64KiB", or doubled from the first to the last: "1KiB:1MiB".
std::vector<std::uint64_t> parse_byte_sizes(std::string_view text);

/// "0 B", "4097 B", "64 KiB", "25 MB", "1.27 MiB": exact up to 9999 bytes and where whole binary units or three decimal
/// digits say it, as it was typed then; else three significant digits in binary units.
std::string format_bytes(double bytes);

/// "0 s", "812 ns", "1.23 µs", "45.6 ms", "7.89 s", "12.3 min", "1.50 h": three significant digits.
std::string format_seconds(double seconds);

/// "1.25 GB/s", decimal as networks and memories are sold; three significant digits.
std::string format_bandwidth(double bytes_per_second);

}  // namespace lockstep

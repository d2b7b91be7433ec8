// Sizes, times and counts as people write and read them. Every command line parses sizes here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Parses a number of bytes: "4096", "64KiB", "1.5 MiB", "10MB". KiB, MiB, GiB, TiB are powers of 1024; kB (KB), MB,
/// GB, TB of 1000; case does not matter. Throws Error(usage) with one sentence for anything else: another unit, "64k"
/// (ambiguous), a negative or fractional number of bytes, more than 2^63.
std::uint64_t parse_bytes(std::string_view text);

/// Parses several sizes: "1KiB,64KiB", or doubling from the first to the last: "1KiB:1MiB".
std::vector<std::uint64_t> parse_byte_sizes(std::string_view text);

/// Returns "0 B", "4097 B", "64 KiB", "25 MB", "1.27 MiB": exact up to 9999 bytes, and for whole binary units or three
/// decimal digits, as they are typed; otherwise three significant digits in binary units.
std::string format_bytes(double bytes);

/// Returns "0 s", "812 ns", "1.23 µs", "45.6 ms", "7.89 s", "12.3 min", "1.50 h": three significant digits.
std::string format_seconds(double seconds);

/// Returns "1.25 GB/s", in decimal units, as usual for networks and memories; three significant digits.
std::string format_bandwidth(double bytes_per_second);

/// Returns "8.03 billion", "124.4 million", "12816": of a model's parameters, four significant digits from a million
/// on.
std::string format_parameters(double count);

}  // namespace lockstep

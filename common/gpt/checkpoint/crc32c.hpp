// CRC-32C, the checksum of iSCSI and ext4 (Castagnoli's polynomial; RFC 3720, appendix B.4). Detects every burst of up
// to 32 bits; any other change goes undetected with a probability of one in four billion.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::checkpoint {

/// Returns the checksum of `bytes`. With `before`, the checksum of the bytes that precede them, returns that of both.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

}  // namespace lockstep::checkpoint

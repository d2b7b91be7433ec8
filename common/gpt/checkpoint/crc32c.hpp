// CRC-32C, the checksum of iSCSI and ext4 (Castagnoli's polynomial; RFC 3720, appendix B.4): finds every change of up
// to 32 neighbouring bits, and any other but one in four thousand million.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::checkpoint {

/// Of `bytes`; or, with the checksum of what stands before them, of both together.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

}  // namespace lockstep::checkpoint

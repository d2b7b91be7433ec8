#include "common/gpt/checkpoint/crc32c.hpp"

#include <array>
#include <cstring>

namespace lockstep::checkpoint {

namespace {

using Table = std::array<std::uint32_t, 256>;

/// tables[k][b]: the effect of byte b on the remainder when k more bytes follow it ("slicing by 8", Kounavis and Berry,
/// ISCC 2005). Bits are mirrored, as in the definition of the checksum.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? 0x82F63B78u : 0);
    tables[0][byte] = rest;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 255];
  return tables;
}
constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
  std::uint32_t rest = ~before;
  while (bytes.size() >= 8) {
    std::uint32_t low = 0, high = 0;  // little-endian, like every machine that this program runs on
    std::memcpy(&low, bytes.data(), 4);
    std::memcpy(&high, bytes.data() + 4, 4);
    low ^= rest;
    rest = 0;
    for (std::size_t i = 0; i < 4; ++i)
      rest ^= kTables[7 - i][(low >> (8 * i)) & 255] ^ kTables[3 - i][(high >> (8 * i)) & 255];
    bytes.remove_prefix(8);
  }
  for (const char byte : bytes) rest = (rest >> 8) ^ kTables[0][(rest ^ static_cast<unsigned char>(byte)) & 255];
  return ~rest;
}

}  // namespace lockstep::checkpoint

#include "common/testing/fakes/cuda/symbols.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>

#include "common/testing/fakes/cuda/order.hpp"

namespace lockstep::fake {

namespace {

/// The program itself as it is in memory: the first object in the list.
dl_phdr_info this_program() {
  dl_phdr_info program{};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<dl_phdr_info*>(result) = *info;
        return 1;
      },
      &program);
  return program;
}

struct Symbols {
  std::map<std::uintptr_t, std::string> functions;
  std::vector<ThreadLocal> thread_locals;
};

template <typename T>
std::vector<T> read_table(std::istream& file, std::size_t offset, std::size_t bytes) {
  std::vector<T> table(bytes / sizeof(T));
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(table.data()), static_cast<std::streamsize>(table.size() * sizeof(T)));
  return table;
}

Symbols read_symbols() {
  Symbols result;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<ElfW(Ehdr)> header = read_table<ElfW(Ehdr)>(file, 0, sizeof(ElfW(Ehdr)));
  if (!file || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return result;
  const auto sections = read_table<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum * sizeof(ElfW(Shdr)));
  const std::uintptr_t base = this_program().dlpi_addr;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const auto names = read_table<char>(file, sections[section.sh_link].sh_offset, sections[section.sh_link].sh_size);
    for (const ElfW(Sym) & symbol : read_table<ElfW(Sym)>(file, section.sh_offset, section.sh_size)) {
      const char* const name = names.data() + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) result.functions.try_emplace(base + symbol.st_value, name);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS && std::strncmp(name, "_ZZ", 3) == 0) {
        result.thread_locals.push_back({name, symbol.st_value, symbol.st_size});
      }
    }
  }
  return result;
}

const Symbols& symbols() {
  static const Symbols& once = [] {
    static const Symbols read = read_symbols();
    order::before(const_cast<Symbols*>(&read));
    return std::ref(read);
  }();
  order::after(const_cast<Symbols*>(&once));
  return once;
}

}  // namespace

std::string function_at(const void* address) {
  const auto found = symbols().functions.find(reinterpret_cast<std::uintptr_t>(address));
  return found == symbols().functions.end() ? "" : found->second;
}

const std::vector<ThreadLocal>& thread_locals_of_functions() { return symbols().thread_locals; }

void* of_this_thread(const ThreadLocal& variable) {
  return static_cast<char*>(this_program().dlpi_tls_data) + variable.offset;
}

}  // namespace lockstep::fake

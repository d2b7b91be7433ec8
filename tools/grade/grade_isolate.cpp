#include "tools/grade/grade_isolate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <sstream>

#include "common/error.hpp"
#include "tools/course/paths.hpp"
#include "tools/course/process.hpp"
#include "tools/grade/grade_run.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

/// One rank's own data, copied whenever another rank continues.
constexpr std::uint64_t kMostPrivateBytes = std::uint64_t{1} << 20;

/// Sections of one name become one, and nothing stays in a group, of which linkers keep the first they see. Read-only
/// data of classes is written once, by the loader: it may as well be a rank's own.
constexpr const char* kTogether =
    "SECTIONS {\n"
    "  lockstep_private : { *(.data .data.* .bss .bss.* COMMON) }\n"
    "  lockstep_private_init : { *(lockstep_private_init) }\n"
    "}\n";

/// A section's name, size and flags, as objdump says them.
struct Section {
  std::string name, flags;
  std::uint64_t size = 0;
  bool writable() const { return flags.find("ALLOC") != flags.npos && flags.find("READONLY") == flags.npos; }
};

std::vector<Section> sections_of(const fs::path& object) {
  std::vector<Section> sections;
  for (const std::string& line : lines_of(said_of({"objdump", "-h", "-w"}, object))) {
    std::istringstream fields(line);
    std::string index, size, word;
    Section section;
    if (!(fields >> index >> section.name >> size) || !std::isdigit(static_cast<unsigned char>(index[0]))) continue;
    section.size = std::stoull(size, nullptr, 16);
    std::getline(fields, section.flags);
    sections.push_back(section);
  }
  return sections;
}

/// Global symbols of an object: name and nm's letter.
std::map<std::string, char> definitions(const fs::path& object) {
  std::map<std::string, char> found;
  for (const std::string& line :
       lines_of(said_of({"nm", "--format=posix", "--defined-only", "--extern-only"}, object))) {
    std::istringstream fields(line);
    std::string name;
    char type = ' ';
    if (fields >> name >> type) found[name] = type;
  }
  return found;
}

/// Runs a tool that makes an object of another; what it says where it fails.
std::string made(const std::vector<std::string>& arguments, const fs::path& folder) {
  const ConfinedEnd end = run_confined({.arguments = arguments, .folder = folder, .rules = Rules::reader});
  return end.exit_code == 0 ? "" : fmt::format("its object cannot be inspected ({})", arguments.front());
}

std::string linker() {
  for (const char* name : {"ld.bfd", "ld"})
    if (!find_program(name).empty()) return name;
  throw Error(Verdict::usage, "there is no linker (ld) to inspect answers with");
}

/// Fails closed: symbols that are still shared after all that are refused.
std::string still_shared(const fs::path& object, const std::vector<std::string>& names) {
  for (const auto& [name, type] : definitions(object))
    if (std::find(names.begin(), names.end(), name) == names.end())
      return fmt::format("it defines {} for others", name);
  for (const Section& section : sections_of(object)) {
    const bool own = section.name == "lockstep_private" || section.name == "lockstep_private_init";
    if (section.writable() && !own) return "it has writable data in " + section.name;
    if (own && section.size > kMostPrivateBytes)
      return fmt::format("its variables outside of functions have {} bytes; the limit is {}", section.size,
                         kMostPrivateBytes);
  }
  return "";
}

}  // namespace

std::string said_of(std::vector<std::string> arguments, const fs::path& object) {
  constexpr std::size_t most = std::size_t{96} << 20;
  const std::string tool = arguments.front();
  arguments.push_back(object.string());
  Confined command{.arguments = std::move(arguments), .folder = object.parent_path(), .rules = Rules::reader};
  command.may_read = {object}, command.limits.output_bytes = command.kept_bytes = most;
  ConfinedEnd end = run_confined(command);
  if (end.exit_code != 0 || end.timed_out || end.printed_too_much)
    throw Error(Verdict::usage, fmt::format("{} cannot look at its object", tool));
  return std::move(end.output);
}

Offered offered_by(const fs::path& reference) {
  Offered offered;
  for (const auto& [name, type] : definitions(reference)) {
    if (type == 'T' || type == 'D' || type == 'B') offered.required.push_back(name);
    if (type == 'T' || type == 'D' || type == 'B' || type == 'R') offered.names.push_back(name);
  }
  return offered;
}

bool may_have_section(std::string_view name) {
  constexpr std::array whole{".text",  ".data",    ".bss",        ".rodata",      ".eh_frame", ".gcc_except_table",
                             ".group", ".comment", ".init_array", ".llvm_addrsig"};
  constexpr std::array begins{".text.",  ".data.", ".bss.", ".rodata.", ".gcc_except_table.",
                              ".debug_", ".note.", ".rela."};
  return std::find(whole.begin(), whole.end(), name) != whole.end() ||
         std::any_of(begins.begin(), begins.end(), [&](std::string_view begin) { return name.starts_with(begin); });
}

Isolated isolate(const fs::path& object, const Offered& offered) {
  const fs::path folder = object.parent_path();
  const auto defined = definitions(object);
  for (const std::string& name : offered.required) {
    const auto own = defined.find(name);
    if (own == defined.end() || std::string_view("TDB").find(own->second) == std::string_view::npos) {
      const ConfinedEnd end = run_confined({.arguments = {"c++filt", name}, .folder = folder, .rules = Rules::reader});
      return {.missing = end.output.substr(0, end.output.find('\n'))};
    }
  }
  for (const Section& section : sections_of(object))
    if (section.name.starts_with(".tdata") || section.name.starts_with(".tbss"))
      return {.refused = "it has thread_local variables, which the ranks of the simulator would share"};
    else if (section.name == ".linker-options" && section.size == 0)
      continue;  // Clang's own, in every object; what stands in one tells some linkers what to link
    else if (!may_have_section(section.name))
      return {.refused = "it has a section " + section.name};

  const fs::path script = folder / "together.ld", names = folder / "offered";
  const fs::path renamed = folder / "renamed.o", whole = folder / "whole.o", own = folder / "own.o";
  std::string list;
  for (const std::string& name : offered.names) list += name + "\n";
  write_text(script, kTogether), write_text(names, list);
  const std::string flags = "lockstep_private_init,alloc,load,data,contents";
  std::string why = made({"objcopy", "--rename-section", ".init_array=" + flags, object, renamed}, folder);
  if (why.empty())
    why = made({linker(), "-r", "-d", "--force-group-allocation", "-T", script, renamed, "-o", whole}, folder);
  if (why.empty())
    why = made({"objcopy", "--keep-global-symbols=" + names.string(), "--redefine-sym",
                "__cxa_atexit=lockstep_private_at_exit", whole, own},
               folder);
  if (why.empty()) why = still_shared(own, offered.names);
  return {.object = own, .refused = why};
}

}  // namespace lockstep::tools

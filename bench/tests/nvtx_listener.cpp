// A profiler of two dozen lines, for a test: loaded by NVTX (NVTX_INJECTION64_PATH), it writes the name of every range
// to the file that LOCKSTEP_NVTX_NAMES names.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

namespace {

void note(const char* what, const char* name) {
  if (std::FILE* file = std::fopen(std::getenv("LOCKSTEP_NVTX_NAMES"), "a")) {
    std::fprintf(file, "%s %s\n", what, name);
    std::fclose(file);
  }
}

nvtxRangeId_t start(const nvtxEventAttributes_t* attributes) {
  note("region", attributes->message.ascii);
  return 1;
}
int push(const char* name) {
  note("operation", name);
  return 0;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): NVTX looks for this name
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) return 0;
  *table[NVTX_CBID_CORE_RangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(start);
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  return 1;
}

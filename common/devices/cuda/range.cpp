#include "common/devices/cuda/range.hpp"

#include <nvtx3/nvToolsExt.h>

#include "common/rank.hpp"

namespace lockstep::cuda {

Range::Range(const char* name, int rank, std::size_t bytes) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = static_cast<std::uint32_t>(rank);
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  if (bytes != kPhase) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = bytes;
  }
  id_ = nvtxRangeStartEx(&attributes);
}
Range::~Range() {
  if (id_) nvtxRangeEnd(id_);
}

OperationRange::OperationRange(const char* name) { nvtxRangePushA(name); }
OperationRange::~OperationRange() { nvtxRangePop(); }

}  // namespace lockstep::cuda

// What the handlers of custom calls have in common.
#pragma once

#include <cstdint>
#include <exception>
#include <new>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "codes.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Integers = ffi::Span<const int64_t>;
using Any = ffi::AnyBuffer;
using AnyResult = ffi::Result<ffi::AnyBuffer>;

// The handler, its exceptions given to XLA as errors: one that left it would end the process.
template <typename... Arguments>
auto guarded(ffi::Error (*handler)(Arguments...)) {
  return [handler](Arguments... arguments) {
    try {
      return handler(arguments...);
    } catch (const std::bad_alloc&) {
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, "out of memory in a kernel of ftorch");
    } catch (const std::exception& error) {
      return ffi::Error(ffi::ErrorCode::kInternal, error.what());
    }
  };
}

// use(a number of the buffer's type), for the types that kernels compute in.
template <typename Use>
ffi::Error by_type(ffi::DataType type, const Use& use) {
  switch (type) {
    case ffi::F32: use(float{}); break;
    case ffi::F64: use(double{}); break;
    case ffi::S32: use(int32_t{}); break;
    case ffi::S64: use(int64_t{}); break;
    default: return ffi::Error::InvalidArgument("a dtype that ftorch's kernels do not have");
  }
  return ffi::Error::Success();
}

// The same for floating types.
template <typename Use>
ffi::Error by_float(ffi::DataType type, const Use& use) {
  switch (type) {
    case ffi::F32: use(float{}); break;
    case ffi::F64: use(double{}); break;
    case ffi::F16: use(Half{}); break;
    case ffi::BF16: use(Brain{}); break;
    default: return ffi::Error::InvalidArgument("a dtype that ftorch's kernels do not have");
  }
  return ffi::Error::Success();
}

// use(an integer of the index's type).
template <typename Use>
void by_index(ffi::DataType type, const Use& use) {
  type == ffi::S32 ? use(int32_t{}) : use(int64_t{});
}

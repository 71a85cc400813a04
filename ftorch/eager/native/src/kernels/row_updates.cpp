// A part of an array written where the array lies, as the row of a token into a cache of keys and values.

#include <cstring>

#include "calls.h"

namespace {

// y = x with `part` from `places` on (int64, one for each dimension; nothing is written if the first is negative). y is x's memory.
ffi::Error put_part(Any x, Any part, ffi::Buffer<ffi::S64> places, AnyResult y) {
  const int64_t item = ffi::ByteWidth(x.element_type()), rank = x.dimensions().size();
  auto* to = static_cast<char*>(y->untyped_data());
  if (x.untyped_data() != y->untyped_data()) std::memcpy(to, x.untyped_data(), x.element_count() * item);
  const int64_t* place = places.typed_data();
  if (place[0] < 0 || !part.element_count()) return ffi::Error::Success();
  const auto whole = x.dimensions(), own = part.dimensions();
  int64_t run = item, last = rank - 1;  // bytes that lie behind each other in both, the dimension before them
  int64_t step = item;                  // of that dimension in the whole
  for (; last >= 0; last--) {
    to += place[last] * step, run *= own[last], step *= whole[last];
    if (own[last] != whole[last] && last > 0) { last--; break; }
  }
  for (int64_t d = last, at = step; d >= 0; d--) to += place[d] * at, at *= whole[d];
  int64_t count = 1;
  for (int64_t d = 0; d <= last; d++) count *= own[d];
  const auto* from = static_cast<const char*>(part.untyped_data());
  for (int64_t i = 0; i < count; i++, from += run) {
    int64_t rest = i, offset = 0;
    for (int64_t d = last, at = step; d >= 0; d--) offset += rest % own[d] * at, rest /= own[d], at *= whole[d];
    std::memcpy(to + offset, from, run);
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_put_part, guarded(put_part),
                              ffi::Ffi::Bind().Arg<Any>().Arg<Any>().Arg<ffi::Buffer<ffi::S64>>().Ret<Any>());

// Products without a sum, as the weight's gradient of each example is: memory decides, so that rows of the
// result are written one behind the other.

#include <cstring>
#include <string>

#include "memory.h"
#include "threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;

#define KERNELS "outer.inc"
#include "instructions.inc"

constexpr double WRITE = 8;  // operations in whose time an element is written

// The attributes are those of `multiply` in handlers.cpp.
ffi::Error outer(ffi::ThreadPool pool, Floats a, Floats b, ffi::Result<Floats> c, Integers sizes, Integers outer,
                 Integers left, Integers right, Integers result) {
  const int64_t m = sizes[0], n = sizes[1], rows = outer[0] * outer[1] * m;
  const int64_t tasks = parts(rows, 1, tasks_for(WRITE * rows * n, pool));
  static const auto scale = BEST(scale);
  share(pool, tasks, [&](int64_t task) {
    const Range range = part(task, tasks, rows, 1);
    Scratch turned(right[3] == 1 ? 0 : n);
    const float* before = nullptr;
    for (int64_t r = range.from; r < range.to; r++) {
      const int64_t u = r / m / outer[1], v = r / m % outer[1], i = r % m;
      const float* y = b.typed_data() + u * right[0] + v * right[1];
      if (right[3] != 1) {
        if (y != before)
          for (int64_t j = 0; j < n; j++) turned.data[j] = y[j * right[3]];
        before = y, y = turned.data;
      }
      const float x = a.typed_data()[u * left[0] + v * left[1] + i * left[2]];
      scale(n, x, y, c->typed_data() + u * result[0] + v * result[1] + i * result[2]);
    }
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_outer, guarded(outer),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<Floats>().Ret<Floats>()
                                  .Attr<Integers>("sizes").Attr<Integers>("outer").Attr<Integers>("left")
                                  .Attr<Integers>("right").Attr<Integers>("result"));

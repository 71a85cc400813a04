// Products without a sum, as the weight's gradient of each example is: memory decides, so that rows of the
// result are written one behind the other.

#include <cstring>
#include <string>

#include "operands.h"
#include "products/product.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;

#define KERNELS "products/outer.inc"
#include "vectors/instructions.inc"

constexpr double WRITE = 8;  // operations in whose time an element is written

// The attributes are those of `multiply_call` in handlers.cpp.
ffi::Error outer_call(ffi::ThreadPool pool, Floats a, Floats b, ffi::Result<Floats> c, Integers sizes, Integers outer,
                      Integers left, Integers right, Integers result) {
  multiply_outer(pool, product_of(sizes, outer, left, right, result), a.typed_data(), b.typed_data(), c->typed_data());
  return ffi::Error::Success();
}

}  // namespace

void multiply_outer(ffi::ThreadPool pool, const Product& p, const float* a, const float* b, float* c) {
  const int64_t m = p.sizes[0], n = p.sizes[1], rows = p.outer[0] * p.outer[1] * m;
  const int64_t tasks = parts(rows, 1, tasks_for(WRITE * rows * n, pool));
  static const auto scale = BEST(scale);
  share(pool, tasks, [&](int64_t task) {
    const Range range = part(task, tasks, rows, 1);
    Scratch turned(p.right[3] == 1 ? 0 : n);
    const float* before = nullptr;
    for (int64_t r = range.from; r < range.to; r++) {
      const int64_t u = r / m / p.outer[1], v = r / m % p.outer[1], i = r % m;
      const float* y = b + u * p.right[0] + v * p.right[1];
      if (p.right[3] != 1) {
        if (y != before)
          for (int64_t j = 0; j < n; j++) turned.data[j] = y[j * p.right[3]];
        before = y, y = turned.data;
      }
      const float x = a[u * p.left[0] + v * p.left[1] + i * p.left[2]];
      scale(n, x, y, c + u * p.result[0] + v * p.result[1] + i * p.result[2]);
    }
  });
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_outer, guarded(outer_call),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<Floats>().Ret<Floats>()
                                  .Attr<Integers>("sizes").Attr<Integers>("outer").Attr<Integers>("left")
                                  .Attr<Integers>("right").Attr<Integers>("result"));

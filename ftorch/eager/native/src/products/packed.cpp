// Products of few rows of float32 with weights of eight and four bits: memory decides, so they are read once, as they are.

#include <cstring>
#include <string>

#include "operands.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

constexpr double BYTE = 3;    // operations in whose time a weight of a row is widened and multiplied
constexpr int64_t ROWS_OF_BLOCK = 64;

#define KERNELS "products/packed.inc"
#include "vectors/instructions.inc"

// sizes: rows of x, rows of the weights, columns of both.
ffi::Error multiply_weights8(ffi::ThreadPool pool, Floats x, ffi::Buffer<ffi::S8> weights, Result y, Integers sizes) {
  static const auto multiply = BEST(multiply_bytes);
  const int64_t m = sizes[0], n = sizes[1], depth = sizes[2];
  const int64_t tasks = parts(n, 4, tasks_for(BYTE * m * n * depth, pool));
  share(pool, tasks, [&](int64_t task) {
    const Range range = part(task, tasks, n, 4);
    multiply(m, range.from, range.to, depth, x.typed_data(), weights.typed_data(), y->typed_data(), n);
  });
  return ffi::Error::Success();
}

// sizes: as above, and columns of a group.
ffi::Error multiply_weights4(ffi::ThreadPool pool, Floats x, ffi::Buffer<ffi::U8> weights, Any settings, Result y,
                             Integers sizes) {
  const int64_t m = sizes[0], n = sizes[1], depth = sizes[2], group = sizes[3];
  const int64_t tasks = parts(n, ROWS_OF_BLOCK, tasks_for(BYTE * m * n * depth, pool));
  const auto run = [&](auto multiply, const auto* scales) {
    share(pool, tasks, [&](int64_t task) {
      const Range range = part(task, tasks, n, ROWS_OF_BLOCK);
      for (int64_t j = range.from; j < range.to; j += ROWS_OF_BLOCK)
        multiply(m, std::min(ROWS_OF_BLOCK, n - j), depth, group, x.typed_data(), weights.typed_data() + j * depth / 2,
                 scales + 2 * j, 2 * n, y->typed_data() + j, n);
    });
  };
  if (settings.element_type() == ffi::BF16)
    run(BEST(multiply_halves<uint16_t>), static_cast<const uint16_t*>(settings.untyped_data()));
  else
    run(BEST(multiply_halves<float>), static_cast<const float*>(settings.untyped_data()));
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply_weights8, guarded(multiply_weights8),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<ffi::Buffer<ffi::S8>>().Ret<Floats>()
                                  .Attr<Integers>("sizes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply_weights4, guarded(multiply_weights4),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<ffi::Buffer<ffi::U8>>().Arg<Any>()
                                  .Ret<Floats>().Attr<Integers>("sizes"));

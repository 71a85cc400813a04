// Sparse matrices of float32 times dense ones: elements row by row.

#include <cstring>
#include <string>

#include "operands.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;

#define KERNELS "kernels/sparse.inc"
#include "vectors/instructions.inc"

// sizes: products, rows, elements of each, rows and columns of the dense matrix.
ffi::Error multiply_sparse(ffi::ThreadPool pool, Floats values, Any begins, Any columns, Floats x, ffi::Result<Floats> y,
                           Integers sizes) {
  constexpr double READ = 3;      // operations in whose time an element is read and added, of many
  constexpr int64_t BLOCK = 128;  // columns of the dense matrix that all rows meet before the next ones
  const int64_t products = sizes[0], rows = sizes[1], count = sizes[2], terms = sizes[3], width = sizes[4];
  if (count == 0 || terms == 0) {
    std::memset(y->typed_data(), 0, products * rows * width * sizeof(float));
    return ffi::Error::Success();
  }
  const int64_t cuts = parts(rows, 1, tasks_for(READ * products * count * (width + 4), pool));
  by_index(begins.element_type(), [&](auto integer) {
    using Index = decltype(integer);
    static const auto multiply = BEST(multiply_sparse<Index>);
    share(pool, products * cuts, [&](int64_t task) {
      const int64_t which = task / cuts;
      const Range range = part(task % cuts, cuts, rows, 1);
      const Index* from = static_cast<const Index*>(begins.untyped_data()) + which * (rows + 1) + range.from;
      for (int64_t j = 0; j < width; j += BLOCK)
        multiply(range.to - range.from, terms, width, std::min(BLOCK, width - j), from,
                 static_cast<const Index*>(columns.untyped_data()) + which * count, values.typed_data() + which * count,
                 x.typed_data() + which * terms * width + j,
                 y->typed_data() + (which * rows + range.from) * width + j);
    });
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply_sparse, guarded(multiply_sparse),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<Any>().Arg<Any>().Arg<Floats>()
                                  .Ret<Floats>().Attr<Integers>("sizes"));

// Bags of an embedding table's float32 rows: their sums, or means.

#include <cstring>
#include <string>

#include "operands.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

constexpr double READ = 12;  // operations in whose time an element is read and added

#define KERNELS "kernels/bags.inc"
#include "vectors/instructions.inc"

// sizes: tables, bags of each, integers of a bag, rows of a table, elements of a row, whether means are wanted.
ffi::Error bags(ffi::ThreadPool pool, Floats x, Any index, Result y, Integers sizes) {
  const int64_t count = sizes[0] * sizes[1], length = sizes[2], rows = sizes[3], width = sizes[4];
  const float by = sizes[5] ? length : 1;
  const int64_t tasks = parts(count, 1, tasks_for(READ * count * length * width, pool));
  by_index(index.element_type(), [&](auto integer) {
    using Index = decltype(integer);
    static const auto sum = BEST(sum_named_rows<Index>);
    const Index* named = static_cast<const Index*>(index.untyped_data());
    share(pool, tasks, [&](int64_t task) {
      const Range range = part(task, tasks, count, 1);
      for (int64_t i = range.from; i < range.to; i++)
        sum(length, rows, width, x.typed_data() + i / sizes[1] * rows * width, named + i * length, by,
            y->typed_data() + i * width);
    });
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_bags, guarded(bags),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<Any>().Ret<Floats>()
                                  .Attr<Integers>("sizes"));

// What goes row by row in float32: softmax, layer normalization, sums.

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "operands.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

#define KERNELS "kernels/rowwise.inc"
#include "vectors/instructions.inc"

namespace best {
const auto softmax = BEST(softmax);
const auto softmax_gradient = BEST(softmax_gradient);
const auto layer_norm = BEST(layer_norm);
const auto layer_norm_gradient = BEST(layer_norm_gradient);
const auto sum_row = BEST(sum_row);
const auto sum_rows = BEST(sum_rows);
const auto sum_some_rows = BEST(sum_some_rows);
}  // namespace best

constexpr double POWER = 32, MOVE = 16, READ = 8;  // operations in whose time an element is: raised; read and written; read

// use(the first element of a row), in tasks.
template <typename Use>
void each_row(ffi::ThreadPool& pool, int64_t rows, int64_t count, double operations, const Use& use) {
  const int64_t tasks = parts(rows, 1, tasks_for(operations * rows * count, pool));
  share(pool, tasks, [&](int64_t task) {
    const Range range = part(task, tasks, rows, 1);
    for (int64_t i = range.from; i < range.to; i++) use(i * count);
  });
}

// sizes: rows, elements of one, whether the logarithm is wanted.
ffi::Error softmax(ffi::ThreadPool pool, Floats x, Result y, Integers sizes) {
  each_row(pool, sizes[0], sizes[1], POWER, [&](int64_t at) {
    best::softmax(sizes[1], x.typed_data() + at, y->typed_data() + at, sizes[2]);
  });
  return ffi::Error::Success();
}

ffi::Error softmax_gradient(ffi::ThreadPool pool, Floats grad, Floats y, Result result, Integers sizes) {
  each_row(pool, sizes[0], sizes[1], sizes[2] ? POWER : MOVE, [&](int64_t at) {
    best::softmax_gradient(sizes[1], grad.typed_data() + at, y.typed_data() + at, result->typed_data() + at, sizes[2]);
  });
  return ffi::Error::Success();
}

// sizes: groups with a weight and a bias of their own, rows of one, elements of a row.
ffi::Error layer_norm(ffi::ThreadPool pool, Floats x, Floats weight, Floats bias, Result y, Integers sizes, float eps) {
  const int64_t count = sizes[2], group = sizes[1] * count;
  each_row(pool, sizes[0] * sizes[1], count, MOVE, [&](int64_t at) {
    const int64_t own = at / group * count;
    best::layer_norm(count, x.typed_data() + at, weight.typed_data() + own, bias.typed_data() + own, eps,
                     y->typed_data() + at);
  });
  return ffi::Error::Success();
}

ffi::Error layer_norm_gradient(ffi::ThreadPool pool, Floats grad, Floats x, Floats weight, Result result,
                               Result d_weight, Result d_bias, Integers sizes, float eps) {
  const int64_t groups = sizes[0], rows = sizes[1], count = sizes[2];
  const int64_t wanted = sums_of(2 * MOVE * groups * rows * count);
  const int64_t splits = parts(rows, 8, (wanted + groups - 1) / groups), tasks = groups * splits;
  Scratch sums(2 * tasks * count);  // of the weight and the bias, of each part of the rows
  std::memset(sums.data, 0, 2 * tasks * count * sizeof(float));
  share(pool, tasks, [&](int64_t task) {
    const int64_t group = task / splits;
    const Range range = part(task % splits, splits, rows, 1);
    for (int64_t i = range.from; i < range.to; i++) {
      const int64_t at = (group * rows + i) * count;
      best::layer_norm_gradient(count, grad.typed_data() + at, x.typed_data() + at, weight.typed_data() + group * count,
                                eps, result->typed_data() + at, sums.data + task * count,
                                sums.data + (tasks + task) * count);
    }
  });
  for (int64_t g = 0; g < groups; g++) {
    best::sum_rows(splits, count, sums.data + g * splits * count, d_weight->typed_data() + g * count);
    best::sum_rows(splits, count, sums.data + (tasks + g * splits) * count, d_bias->typed_data() + g * count);
  }
  return ffi::Error::Success();
}

inline int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t LONG = 4096;  // terms of a sum

// sizes: outer, length, inner; the sum goes along the length.
ffi::Error sum(ffi::ThreadPool pool, Floats x, Result y, Integers sizes) {
  const int64_t outer = sizes[0], length = sizes[1], inner = sizes[2], each = outer * inner;
  const int64_t wanted = tasks_for(READ * each * length, pool), sums_wanted = sums_of(READ * each * length);
  const int64_t down = parts(outer, 1, wanted);
  // Few, since one thread adds up what all have summed; but sums of sums are more precise.
  const int64_t most = inner > 1 && length < LONG ? std::min<int64_t>(sums_wanted, 2) : sums_wanted;
  const int64_t splits = parts(length, 64, over(most, std::min(outer, most)));
  const int64_t apart = (each + 15) / 16 * 16;  // no two share a line
  Scratch sums((splits - 1) * apart);
  share(pool, down * splits, [&](int64_t task) {
    const Range lines = part(task / splits, down, outer, 1), range = part(task % splits, splits, length, 64);
    float* to = task % splits ? sums.data + (task % splits - 1) * apart : y->typed_data();
    for (int64_t i = lines.from; i < lines.to; i++) {
      const float* from = x.typed_data() + (i * length + range.from) * inner;
      if (inner == 1) to[i] = best::sum_row(range.to - range.from, from);
      else best::sum_rows(range.to - range.from, inner, from, to + i * inner);
    }
  });
  for (int64_t i = 0; i + 1 < splits; i++) best::sum_some_rows(1, each, sums.data + i * apart, y->typed_data(), true);
  return ffi::Error::Success();
}

}  // namespace

#define CALL ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_softmax, guarded(softmax), CALL.Arg<Floats>().Ret<Floats>().Attr<Integers>("sizes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_softmax_gradient, guarded(softmax_gradient),
                              CALL.Arg<Floats>().Arg<Floats>().Ret<Floats>().Attr<Integers>("sizes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_layer_norm, guarded(layer_norm),
                              CALL.Arg<Floats>().Arg<Floats>().Arg<Floats>().Ret<Floats>().Attr<Integers>("sizes")
                                  .Attr<float>("eps"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_layer_norm_gradient, guarded(layer_norm_gradient),
                              CALL.Arg<Floats>().Arg<Floats>().Arg<Floats>().Ret<Floats>().Ret<Floats>().Ret<Floats>()
                                  .Attr<Integers>("sizes").Attr<float>("eps"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_sum, guarded(sum), CALL.Arg<Floats>().Ret<Floats>().Attr<Integers>("sizes"));

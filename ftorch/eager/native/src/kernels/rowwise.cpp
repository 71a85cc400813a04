// What goes row by row: softmax and layer normalization of floating types, sums of float32.

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "operands.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

#define KERNELS "kernels/rowwise.inc"
#include "vectors/instructions.inc"

namespace best {

template <typename T>
struct Rows {
  using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;  // what is computed with
  static inline const auto softmax = BEST(softmax<T>);
  static inline const auto softmax_gradient = BEST(softmax_gradient<T>);
  static inline const auto layer_norm = BEST(layer_norm<T>);
  static inline const auto layer_norm_gradient = BEST(layer_norm_gradient<T>);
  static inline const auto copy_numbers = BEST(copy_numbers<T>);
};

template <typename Number> const auto sum_rows = BEST(sum_rows<Number>);
const auto sum_row = BEST(sum_row);
const auto sum_some_rows = BEST(sum_some_rows<float>);

}  // namespace best

constexpr double POWER = 32, MOVE = 16, READ = 8;  // operations in whose time an element is: raised; read and written; read

// use(the first row, the row behind the last), in tasks.
template <typename Use>
void share_rows(ffi::ThreadPool& pool, int64_t rows, int64_t count, double operations, const Use& use) {
  const int64_t tasks = parts(rows, 1, tasks_for(operations * rows * count, pool));
  share(pool, tasks, [&](int64_t task) {
    const Range range = part(task, tasks, rows, 1);
    use(range.from, range.to);
  });
}

template <typename T, typename Buffer>
T* numbers(Buffer& buffer) { return static_cast<T*>(buffer.untyped_data()); }

// sizes: rows, elements of one, whether the logarithm is wanted.
ffi::Error softmax(ffi::ThreadPool pool, Any x, AnyResult y, Integers sizes) {
  return by_float(x.element_type(), [&](auto element) {
    using T = decltype(element);
    using Number = typename best::Rows<T>::Number;
    const int64_t count = sizes[1];
    share_rows(pool, sizes[0], count, POWER, [&](int64_t row, int64_t to) {
      Scratch room(std::is_same_v<T, Number> ? 0 : count);
      for (; row < to; row++) {
        T* const own = numbers<T>(*y) + row * count;
        Number* powers;
        if constexpr (std::is_same_v<T, Number>) powers = own;
        else powers = room.data;
        best::Rows<T>::softmax(count, numbers<T>(x) + row * count, powers, own, sizes[2]);
      }
    });
  });
}

ffi::Error softmax_gradient(ffi::ThreadPool pool, Any grad, Any y, AnyResult result, Integers sizes) {
  return by_float(y.element_type(), [&](auto element) {
    using T = decltype(element);
    const int64_t count = sizes[1];
    share_rows(pool, sizes[0], count, sizes[2] ? POWER : MOVE, [&](int64_t row, int64_t to) {
      for (int64_t at = row * count; at < to * count; at += count)
        best::Rows<T>::softmax_gradient(count, numbers<T>(grad) + at, numbers<T>(y) + at, numbers<T>(*result) + at, sizes[2]);
    });
  });
}

// sizes: groups with a weight and a bias of their own, rows of one, elements of a row.
ffi::Error layer_norm(ffi::ThreadPool pool, Any x, Any weight, Any bias, AnyResult y, Integers sizes, double eps) {
  return by_float(x.element_type(), [&](auto element) {
    using T = decltype(element);
    const int64_t count = sizes[2], rows = sizes[1];
    share_rows(pool, sizes[0] * rows, count, MOVE, [&](int64_t row, int64_t to) {
      for (; row < to; row++) {
        const int64_t at = row * count, own = row / rows * count;
        best::Rows<T>::layer_norm(count, numbers<T>(x) + at, numbers<T>(weight) + own, numbers<T>(bias) + own, eps,
                                  numbers<T>(*y) + at);
      }
    });
  });
}

ffi::Error layer_norm_gradient(ffi::ThreadPool pool, Any grad, Any x, Any weight, AnyResult result, AnyResult d_weight,
                               AnyResult d_bias, Integers sizes, double eps) {
  return by_float(x.element_type(), [&](auto element) {
    using T = decltype(element);
    using Number = typename best::Rows<T>::Number;
    const int64_t groups = sizes[0], rows = sizes[1], count = sizes[2];
    const int64_t wanted = sums_of(2 * MOVE * groups * rows * count);
    const int64_t splits = parts(rows, 8, (wanted + groups - 1) / groups), tasks = groups * splits;
    const Scratch room(floats_for<Number>(2 * tasks * count));  // of the weight and the bias, of each part of the rows
    Number* const sums = reinterpret_cast<Number*>(room.data);
    std::memset(sums, 0, 2 * tasks * count * sizeof(Number));
    share(pool, tasks, [&](int64_t task) {
      const int64_t group = task / splits;
      const Range range = part(task % splits, splits, rows, 1);
      for (int64_t i = range.from; i < range.to; i++) {
        const int64_t at = (group * rows + i) * count;
        best::Rows<T>::layer_norm_gradient(count, numbers<T>(grad) + at, numbers<T>(x) + at,
                                           numbers<T>(weight) + group * count, eps, numbers<T>(*result) + at,
                                           sums + task * count, sums + (tasks + task) * count);
      }
    });
    const auto sum_parts = [&](const Number* parts, T* to) {
      if constexpr (std::is_same_v<T, Number>) {
        best::sum_rows<Number>(splits, count, parts, to);
      } else {
        Scratch total(count);
        best::sum_rows<Number>(splits, count, parts, total.data);
        best::Rows<T>::copy_numbers(count, total.data, to);
      }
    };
    for (int64_t g = 0; g < groups; g++) {
      sum_parts(sums + g * splits * count, numbers<T>(*d_weight) + g * count);
      sum_parts(sums + (tasks + g * splits) * count, numbers<T>(*d_bias) + g * count);
    }
  });
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
      else best::sum_rows<float>(range.to - range.from, inner, from, to + i * inner);
    }
  });
  for (int64_t i = 0; i + 1 < splits; i++) best::sum_some_rows(1, each, sums.data + i * apart, y->typed_data(), true);
  return ffi::Error::Success();
}

}  // namespace

#define CALL ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_softmax, guarded(softmax), CALL.Arg<Any>().Ret<Any>().Attr<Integers>("sizes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_softmax_gradient, guarded(softmax_gradient),
                              CALL.Arg<Any>().Arg<Any>().Ret<Any>().Attr<Integers>("sizes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_layer_norm, guarded(layer_norm),
                              CALL.Arg<Any>().Arg<Any>().Arg<Any>().Ret<Any>().Attr<Integers>("sizes").Attr<double>("eps"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_layer_norm_gradient, guarded(layer_norm_gradient),
                              CALL.Arg<Any>().Arg<Any>().Arg<Any>().Ret<Any>().Ret<Any>().Ret<Any>()
                                  .Attr<Integers>("sizes").Attr<double>("eps"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_sum, guarded(sum), CALL.Arg<Floats>().Ret<Floats>().Attr<Integers>("sizes"));

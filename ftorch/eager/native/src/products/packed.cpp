// Products with weights of eight and four bits. Of few rows memory decides, so they are read once, as they are; for more, some
// rows of them are widened, and stay in the second or third cache for the product.

#include <cstring>
#include <string>

#include "operands.h"
#include "products/product.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

inline float widened(float x) { return x; }
inline float widened(uint16_t x) {
  const uint32_t bits = uint32_t(x) << 16;
  float found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

constexpr double BYTE = 3;    // operations in whose time a weight of a row is widened and multiplied
constexpr int64_t ROWS_OF_BLOCK = 64;

#define KERNELS "products/packed.inc"
#include "vectors/instructions.inc"

constexpr int64_t FEW = 8;          // rows of x that are multiplied with weights as they are
constexpr int64_t WIDE = 1 << 19;   // numbers that are widened at once

inline uint16_t halved(int8_t x) {  // as bfloat16, which has all of them
  const float wide = x;
  uint32_t bits;
  std::memcpy(&bits, &wide, sizeof bits);
  return bits >> 16;
}

// y (m, n) from column `from` on = x (m, depth) times `count` columns of a matrix with such steps.
Product part_of(int64_t m, int64_t count, int64_t depth, int64_t n, int64_t down, int64_t across) {
  return {{m, count, depth}, {1, 1}, {0, 0, depth, 1}, {0, 0, down, across}, {0, 0, n}};
}

// sizes: rows of x, rows of the weights, columns of both.
ffi::Error multiply_weights8(ffi::ThreadPool pool, Any x, ffi::Buffer<ffi::S8> weights, Result y, Integers sizes) {
  static const auto multiply_few = BEST(multiply_bytes);
  const int64_t m = sizes[0], n = sizes[1], depth = sizes[2];
  const bool is_narrow = x.element_type() == ffi::BF16, in_pairs = is_narrow && m > FEW && ftorch_multiplies_bfloat16();
  Scratch room(is_narrow && !in_pairs ? m * depth : 0);
  const float* wide = is_narrow ? room.data : static_cast<const float*>(x.untyped_data());
  if (is_narrow && !in_pairs)
    for (int64_t i = 0; i < m * depth; i++) room.data[i] = widened(static_cast<const uint16_t*>(x.untyped_data())[i]);
  if (m <= FEW) {
    const int64_t tasks = parts(n, 4, tasks_for(BYTE * m * n * depth, pool));
    share(pool, tasks, [&](int64_t task) {
      const Range range = part(task, tasks, n, 4);
      multiply_few(m, range.from, range.to, depth, wide, weights.typed_data(), y->typed_data(), n);
    });
    return ffi::Error::Success();
  }
  const int64_t block = std::min(n, std::max(WIDE / depth / ROWS_OF_BLOCK, int64_t(1)) * ROWS_OF_BLOCK);
  Scratch columns(block * depth);
  for (int64_t j = 0; j < n; j += block) {
    const int64_t count = std::min(block, n - j);
    const int8_t* from = weights.typed_data() + j * depth;
    const int64_t tasks = parts(count * depth, 64, tasks_for(double(count) * depth, pool));
    share(pool, tasks, [&](int64_t task) {
      const Range range = part(task, tasks, count * depth, 64);
      auto* to = reinterpret_cast<uint16_t*>(columns.data);
      if (in_pairs) for (int64_t i = range.from; i < range.to; i++) to[i] = halved(from[i]);
      else for (int64_t i = range.from; i < range.to; i++) columns.data[i] = from[i];
    });
    const Product product = part_of(m, count, depth, n, 1, depth);
    if (in_pairs) multiply_pairs(pool, product, x.untyped_data(), columns.data, y->typed_data() + j);
    else multiply(pool, product, wide, columns.data, y->typed_data() + j);
  }
  return ffi::Error::Success();
}

// The same for weights of four bits, blocks of whose rows lie by columns (`multiply_halves`).
template <typename Scale, typename Few, typename Widen>
void multiply_halves_by(ffi::ThreadPool& pool, const Few& few, const Widen& widen, const float* x, const uint8_t* weights,
                        const Scale* settings, float* y, Integers sizes) {
  const int64_t m = sizes[0], n = sizes[1], depth = sizes[2], group = sizes[3];
  if (m <= FEW) {
    const int64_t tasks = parts(n, ROWS_OF_BLOCK, tasks_for(BYTE * m * n * depth, pool));
    return share(pool, tasks, [&](int64_t task) {
      const Range range = part(task, tasks, n, ROWS_OF_BLOCK);
      for (int64_t j = range.from; j < range.to; j += ROWS_OF_BLOCK)
        few(m, std::min(ROWS_OF_BLOCK, n - j), depth, group, x, weights + j * depth / 2, settings + 2 * j, 2 * n, y + j, n);
    });
  }
  const int64_t block = std::clamp<int64_t>(WIDE / depth / ROWS_OF_BLOCK, 1, (n + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK);
  Scratch columns(block * ROWS_OF_BLOCK * depth);
  for (int64_t j = 0; j < n; j += block * ROWS_OF_BLOCK) {
    const int64_t count = std::min(block * ROWS_OF_BLOCK, n - j);
    const int64_t tasks = parts(count, ROWS_OF_BLOCK, tasks_for(double(count) * depth, pool));
    share(pool, tasks, [&](int64_t task) {
      const Range range = part(task, tasks, count, ROWS_OF_BLOCK);
      for (int64_t i = range.from; i < range.to; i += ROWS_OF_BLOCK)
        widen(std::min(ROWS_OF_BLOCK, count - i), depth, group, weights + (j + i) * depth / 2, settings + 2 * (j + i), 2 * n,
              columns.data + i, count);
    });
    multiply(pool, part_of(m, count, depth, n, count, 1), x, columns.data, y + j);
  }
}

// sizes: as above, and columns of a group.
ffi::Error multiply_weights4(ffi::ThreadPool pool, Floats x, ffi::Buffer<ffi::U8> weights, Any settings, Result y,
                             Integers sizes) {
  const auto run = [&](auto few, auto widen, const auto* scales) {
    multiply_halves_by(pool, few, widen, x.typed_data(), weights.typed_data(), scales, y->typed_data(), sizes);
  };
  if (settings.element_type() == ffi::BF16)
    run(BEST(multiply_halves<uint16_t>), BEST(widen_halves<uint16_t>), static_cast<const uint16_t*>(settings.untyped_data()));
  else
    run(BEST(multiply_halves<float>), BEST(widen_halves<float>), static_cast<const float*>(settings.untyped_data()));
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply_weights8, guarded(multiply_weights8),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Any>().Arg<ffi::Buffer<ffi::S8>>().Ret<Floats>()
                                  .Attr<Integers>("sizes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply_weights4, guarded(multiply_weights4),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<ffi::Buffer<ffi::U8>>().Arg<Any>()
                                  .Ret<Floats>().Attr<Integers>("sizes"));

// Matrix products of bfloat16, whose terms are multiplied in pairs and summed in single precision, by processors that have
// instructions for that; by others in single precision.

#include <cstring>
#include <string>
#include <type_traits>

#include "operands.h"
#include "products/pairs.h"
#include "products/product.h"
#include "threads/threads.h"

namespace {

#define KERNELS "vectors/vectors.inc"
#include "vectors/instructions.inc"

inline float widened(uint16_t x) {
  const uint32_t bits = uint32_t(x) << 16;
  float found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

inline uint16_t narrowed(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (x != x) return bits >> 16 | 64;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

// In single precision: operands are as long as their arrays.
void multiply_widened(ffi::ThreadPool pool, const Product& p, const ffi::AnyBuffer& a, const ffi::AnyBuffer& b,
                      ffi::Result<ffi::AnyBuffer>& c) {
  const auto wide = [](const ffi::AnyBuffer& x, float* to) {
    const auto* from = static_cast<const uint16_t*>(x.untyped_data());
    for (size_t i = 0; i < x.element_count(); i++) to[i] = widened(from[i]);
  };
  const bool narrows = c->element_type() == ffi::DataType::BF16;
  Scratch left(a.element_count()), right(b.element_count()), room(narrows ? c->element_count() : 0);
  wide(a, left.data), wide(b, right.data);
  float* sums = narrows ? room.data : static_cast<float*>(c->untyped_data());
  multiply(pool, p, left.data, right.data, sums);
  auto* to = static_cast<uint16_t*>(c->untyped_data());
  if (narrows)
    for (size_t i = 0; i < c->element_count(); i++) to[i] = narrowed(sums[i]);
}

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,avx2,fma,bmi2")
namespace pairs {

#include "products/words.inc"

struct Pairs {
  using Sum = __m512;
  static constexpr int64_t SIZE = 2;
  static inline __attribute__((always_inline)) Sum step(Sum sums, __m512i left, __m512i right) {
    return _mm512_dpbf16_ps(sums, (__m512bh)left, (__m512bh)right);
  }
  static inline __attribute__((always_inline)) Sum add(Sum x, Sum y) { return _mm512_add_ps(x, y); }
};

inline __attribute__((always_inline)) void put(float* to, __m512 sums, __mmask16 lanes) { _mm512_mask_storeu_ps(to, lanes, sums); }
inline __attribute__((always_inline)) void put(uint16_t* to, __m512 sums, __mmask16 lanes) {
  _mm256_mask_storeu_epi16(to, lanes, (__m256i)_mm512_cvtneps_pbh(sums));
}
inline void put(float* to, float x) { *to = x; }
inline void put(uint16_t* to, float x) { *to = narrowed(x); }

// Of few rows (M) and columns that lie one term behind the other: b is read once, as it lies.
template <int M, typename Out>
void dots(int64_t n, int64_t depth, const char* a, int64_t down, const Terms& b, Out* c, int64_t stride) {
  constexpr int SIDE = 4;
  const int64_t ahead = rows_ahead(SIDE, 2 * b.across) * b.across * 2;
  for (int64_t j = 0; j < n; j += SIDE) {
    const char* columns[SIDE];
    for (int i = 0; i < SIDE; i++) columns[i] = b.data + std::min(j + i, n - 1) * b.across * 2;
    __m512 sums[M][SIDE];
    for (int i = 0; i < M; i++)
      for (int l = 0; l < SIDE; l++) sums[i][l] = _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k += 2 * LANES) {
      const __mmask32 mask = first_bytes(depth - k);
      __m512i right[SIDE];
#pragma GCC unroll 4
      for (int l = 0; l < SIDE; l++) {
        __builtin_prefetch(columns[l] + 2 * k + ahead);
        right[l] = _mm512_maskz_loadu_epi16(mask, columns[l] + 2 * k);
      }
#pragma GCC unroll 4
      for (int i = 0; i < M; i++) {
        const __m512i left = _mm512_maskz_loadu_epi16(mask, a + i * down + 2 * k);
#pragma GCC unroll 4
        for (int l = 0; l < SIDE; l++) sums[i][l] = Pairs::step(sums[i][l], left, right[l]);
      }
    }
    for (int i = 0; i < M; i++)
      for (int l = 0; l < SIDE && j + l < n; l++) put(c + i * stride + j + l, _mm512_reduce_add_ps(sums[i][l]));
  }
}

constexpr int64_t FEW = 4;  // rows of all the product that are multiplied so

// A part of a product, whose number of rows decides how it is made.
template <typename Out>
void multiply_part(int64_t all, int64_t m, int64_t n, int64_t depth, Terms a, const Terms& b, Out* c, int64_t stride) {
  const bool few = all <= FEW && b.down == 1, lies = (a.across == 1 || depth == 1) && (few || depth % 2 == 0);
  const int64_t filled = (depth + 1) / 2 * 2;
  Scratch room(lies ? 0 : m * filled / 2);
  const char* rows = a.data;
  int64_t down = a.down * 2;
  if (!lies) {
    constexpr int64_t SOME = 64;  // terms at a time
    auto* to = reinterpret_cast<uint16_t*>(room.data);
    const auto* from = reinterpret_cast<const uint16_t*>(a.data);
    for (int64_t k = 0; k < filled; k += SOME)
      for (int64_t i = 0; i < m; i++)
        for (int64_t l = k; l < std::min(filled, k + SOME); l++)
          to[i * filled + l] = l < depth ? from[i * a.down + l * a.across] : 0;
    rows = reinterpret_cast<const char*>(to), down = 2 * filled;
  }
  if (few) {
    switch (m) {
      case 1: return dots<1>(n, depth, rows, down, b, c, stride);
      case 2: return dots<2>(n, depth, rows, down, b, c, stride);
      case 3: return dots<3>(n, depth, rows, down, b, c, stride);
      default: return dots<4>(n, depth, rows, down, b, c, stride);
    }
  }
  multiply_words<Pairs>(
      m, n, depth, rows, down, b, [](const int32_t*, int64_t, int64_t) { return _mm512_setzero_ps(); },
      [&](int64_t i, int64_t j, __m512 sums, __mmask16 lanes)
          __attribute__((always_inline)) { put(c + i * stride + j, sums, lanes); });
}

template <typename Out>
void multiply_all(ffi::ThreadPool pool, const Product& p, const char* a, const char* b, Out* c) {
  const int64_t m = p.sizes[0], n = p.sizes[1], depth = p.sizes[2], batches = p.outer[0] * p.outer[1];
  constexpr double READ = 12;  // operations in the time that an element takes, of few
  const double cost = std::max(double(m) * n * depth, READ * (double(m) * depth + double(depth) * n));
  const int64_t wanted = tasks_for(cost * batches, pool);
  int64_t down = 1, across = 1, chunk = 1;
  if (batches < wanted) {
    const int64_t each = (wanted + batches - 1) / batches;
    while (2 * across <= each && n > 2 * across * ACROSS * LANES && n * each > m * across * across) across *= 2;
    down = m <= FEW ? 1 : parts(m, DOWN, (each + across - 1) / across);
    across = parts(n, LANES, (each + down - 1) / down);
  } else {
    chunk = (batches + wanted - 1) / wanted;
  }
  const int64_t grid = down * across, tasks = (batches + chunk - 1) / chunk * grid;
  share(pool, tasks, [&](int64_t task) {
    const Range rows = part(task % down, down, m, DOWN), columns = part(task / down % across, across, n, LANES);
    const int64_t first = task / grid * chunk, last = std::min(batches, first + chunk);
    for (int64_t i = first; i < last; i++) {
      const int64_t u = i / p.outer[1], v = i % p.outer[1];
      const Terms x{a + 2 * (u * p.left[0] + v * p.left[1] + rows.from * p.left[2]), p.left[2], p.left[3]};
      const Terms y{b + 2 * (u * p.right[0] + v * p.right[1] + columns.from * p.right[3]), p.right[2], p.right[3]};
      multiply_part(m, rows.to - rows.from, columns.to - columns.from, depth, x, y,
                    c + u * p.result[0] + v * p.result[1] + rows.from * p.result[2] + columns.from, p.result[2]);
    }
  });
}

}  // namespace pairs
#pragma GCC pop_options

const bool has_pairs = best_instructions() == AVX512 && __builtin_cpu_supports("avx512bf16");
#else
const bool has_pairs = false;
#endif

// sizes, outer, left, right, result: as of float32's (`Product`), the result's steps for bfloat16 or float32.
ffi::Error multiply_bfloat16(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::Result<ffi::AnyBuffer> c,
                             Integers sizes, Integers outer, Integers left, Integers right, Integers result) {
  const Product p = product_of(sizes, outer, left, right, result);
#if defined(__x86_64__)
  if (has_pairs) {
    const auto *x = static_cast<const char*>(a.untyped_data()), *y = static_cast<const char*>(b.untyped_data());
    if (c->element_type() == ffi::DataType::BF16) pairs::multiply_all(pool, p, x, y, static_cast<uint16_t*>(c->untyped_data()));
    else pairs::multiply_all(pool, p, x, y, static_cast<float*>(c->untyped_data()));
    return ffi::Error::Success();
  }
#endif
  multiply_widened(pool, p, a, b, c);
  return ffi::Error::Success();
}

}  // namespace

void multiply_pairs(ffi::ThreadPool pool, const Product& product, const void* a, const void* b, float* c) {
#if defined(__x86_64__)
  pairs::multiply_all(pool, product, static_cast<const char*>(a), static_cast<const char*>(b), c);
#endif
}

void multiply_pairs_here(int64_t m, int64_t n, int64_t depth, const uint16_t* a, int64_t down, const uint16_t* b,
                         int64_t b_down, int64_t b_across, float* c, int64_t stride) {
#if defined(__x86_64__)
  pairs::multiply_part(m, m, n, depth, {reinterpret_cast<const char*>(a), down, 1},
                       {reinterpret_cast<const char*>(b), b_down, b_across}, c, stride);
#endif
}

extern "C" int64_t ftorch_multiplies_bfloat16() { return has_pairs; }

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply_bfloat16, guarded(multiply_bfloat16),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>().Attr<Integers>("sizes").Attr<Integers>("outer")
                                  .Attr<Integers>("left").Attr<Integers>("right").Attr<Integers>("result"));

// Linear layers of int8 weights whose input is rounded to bytes by the range that it has: the range, the bytes, their product
// and its scales in one. Weights are laid out once, when a layer is made: four terms of 16 columns one after the other.

#include <cmath>
#include <cstring>
#include <string>

#include "operands.h"
#include "products/product.h"
#include "threads/threads.h"

namespace {

// What becomes of sums: less the levels' zero point times those of the weights, times both scales, and the bias if there is one.
struct Scales {
  int32_t point;
  float scale;
  const int32_t* sums;
  const float *scales, *bias;
};

#define KERNELS "products/dynamic.inc"
#include "vectors/instructions.inc"

constexpr int64_t LANES = 16, EACH = 4, CHUNK = LANES * EACH;  // columns and terms of a chunk of weights, its bytes

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma,bmi2")
namespace vnni {

constexpr int64_t DOWN = 8, ACROSS = 3;  // rows and vectors of a tile of many rows
constexpr int64_t KEPT = 1 << 18;        // bytes of weights that stay in the second cache

// The numbers of a tile's sums (rows, vectors, LANES), of whose columns `count` exist.
void finish(int64_t rows, int64_t vectors, const int32_t* sums, int64_t count, const Scales& scales, int64_t column, float* y,
            int64_t stride) {
  for (int64_t j = 0; j < vectors; j++) {
    const int64_t at = column + j * LANES, valid = count - j * LANES;
    const __mmask16 lanes = valid >= LANES ? 0xFFFF : (__mmask16(1) << valid) - 1;
    const __m512i less = _mm512_mullo_epi32(_mm512_maskz_loadu_epi32(lanes, scales.sums + at), _mm512_set1_epi32(scales.point));
    const __m512 factor = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, scales.scales + at), _mm512_set1_ps(scales.scale));
    const __m512 bias = scales.bias ? _mm512_maskz_loadu_ps(lanes, scales.bias + at) : _mm512_setzero_ps();
    for (int64_t i = 0; i < rows; i++) {
      const __m512i own = _mm512_load_si512(sums + (i * vectors + j) * LANES);
      const __m512 number = _mm512_cvtepi32_ps(_mm512_sub_epi32(own, less));
      const __m512 found = scales.bias ? _mm512_fmadd_ps(number, factor, bias) : _mm512_mul_ps(number, factor);
      _mm512_mask_storeu_ps(y + i * stride + at, lanes, found);
    }
  }
}

// M rows and N vectors of columns, of which `count` columns exist; `words` chunks of each of the vectors.
template <int M, int N>
__attribute__((noinline)) void tile(int64_t words, int64_t count, const uint8_t* a, int64_t down, const int8_t* b,
                                                const Scales& scales, int64_t column, float* y, int64_t stride) {
  __m512i sums[M][N];
#pragma GCC unroll 8
  for (int i = 0; i < M; i++)
#pragma GCC unroll 8
    for (int j = 0; j < N; j++) sums[i][j] = _mm512_setzero_si512();
  for (int64_t k = 0; k < words; k++) {
    __m512i right[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; j++) {
      if constexpr (N > ACROSS) __builtin_prefetch(b + (j * words + k) * CHUNK + AHEAD);
      right[j] = _mm512_loadu_si512(b + (j * words + k) * CHUNK);
    }
#pragma GCC unroll 8
    for (int i = 0; i < M; i++) {
      int32_t word;
      std::memcpy(&word, a + i * down + EACH * k, EACH);
      const __m512i left = _mm512_set1_epi32(word);
#pragma GCC unroll 8
      for (int j = 0; j < N; j++) sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], left, right[j]);
    }
  }
  alignas(64) int32_t found[M][N][LANES];  // what follows is no part of the loop above, whose sums stay in registers
#pragma GCC unroll 8
  for (int i = 0; i < M; i++)
#pragma GCC unroll 8
    for (int j = 0; j < N; j++) _mm512_store_si512(found[i][j], sums[i][j]);
  finish(M, N, found[0][0], count, scales, column, y, stride);
}

// Columns of vectors from `from` to `to`, N vectors at a time, for M rows.
template <int M, int N>
void few_rows(int64_t from, int64_t to, int64_t n, int64_t words, const uint8_t* a, int64_t down, const int8_t* packed,
              const Scales& scales, float* y, int64_t stride) {
  const auto at = [&](int64_t v) { return packed + v * words * CHUNK; };
  int64_t v = from;
  for (; v + N <= to; v += N) tile<M, N>(words, n - v * LANES, a, down, at(v), scales, v * LANES, y, stride);
  for (; v < to; v++) tile<M, 1>(words, n - v * LANES, a, down, at(v), scales, v * LANES, y, stride);
}

// y (m, n), its columns of vectors from `from` to `to`.
void multiply_levels(int64_t m, int64_t from, int64_t to, int64_t n, int64_t words, const uint8_t* a, int64_t down,
                     const int8_t* packed, const Scales& scales, float* y, int64_t stride) {
  switch (m) {
    case 1: return few_rows<1, 8>(from, to, n, words, a, down, packed, scales, y, stride);
    case 2: return few_rows<2, 8>(from, to, n, words, a, down, packed, scales, y, stride);
    case 3: return few_rows<3, 6>(from, to, n, words, a, down, packed, scales, y, stride);
    case 4: return few_rows<4, 5>(from, to, n, words, a, down, packed, scales, y, stride);
  }
  const int64_t block = std::max<int64_t>(KEPT / (words * CHUNK) / ACROSS, 1) * ACROSS, group = 4 * DOWN;
  for (int64_t first = from; first < to; first += block) {
    const int64_t last = std::min(to, first + block);
    for (int64_t i = 0; i < m; i += group)
      for (int64_t v = first; v < last; v += ACROSS) {
        const int64_t own = std::min(v + ACROSS, last), end = std::min(m, i + group);
        int64_t row = i;
        const auto run = [&](auto rows) __attribute__((always_inline)) {
          constexpr int M = decltype(rows)::value;
          for (; row + M <= end; row += M)
            few_rows<M, ACROSS>(v, own, n, words, a + row * down, down, packed, scales, y + row * stride, stride);
        };
        run(std::integral_constant<int, DOWN>()), run(std::integral_constant<int, 4>());
        run(std::integral_constant<int, 2>()), run(std::integral_constant<int, 1>());
      }
  }
}

}  // namespace vnni
#pragma GCC pop_options

const bool has_vnni = best_instructions() == AVX512 && __builtin_cpu_supports("avx512vnni");
#else
const bool has_vnni = false;
#endif

// The levels' scale and zero point for numbers from low to high, which contain zero: PyTorch's rule, in its precision.
struct Affine {
  float scale;
  int32_t point;
  Affine(float low, float high, int64_t largest) {
    constexpr double LEAST = 6.1e-5;
    double wide = (double(high) - double(low)) / largest;
    const float single = wide;
    if (single == 0 || std::isinf(1 / single)) wide = 0.1;
    if (wide < LEAST) {
      const float factor = float(LEAST) / float(wide), whole = LEAST * largest, before = low;
      low = low == 0 ? low : high == 0 ? -whole : low * factor;
      high = before == 0 ? whole : high == 0 ? high : high * factor;
      wide = LEAST;
    }
    const double from_low = -double(low) / wide, from_high = largest - double(high) / wide;
    const bool nearer = -std::abs(double(low) / wide) < largest - std::abs(double(high) / wide);
    const double found = nearer ? from_low : from_high;
    scale = wide;
    point = found == found ? int32_t(std::nearbyint(std::clamp<double>(found, 0, largest))) : INT32_MIN;
  }
};

// The range of numbers of which some are none, as PyTorch's kernel finds it, in eight lanes: what was seen in a lane before such
// a number is forgotten, the first number of all is not.
void range_by_lanes(int64_t count, const float* x, float* low, float* high) {
  constexpr int64_t SIDE = 8;
  float least[SIDE], largest[SIDE];
  std::fill(least, least + SIDE, x[0]), std::fill(largest, largest + SIDE, x[0]);
  *low = *high = x[0];
  int64_t i = 0;
  for (; i + SIDE <= count; i += SIDE)
    for (int64_t j = 0; j < SIDE; j++) {
      least[j] = least[j] < x[i + j] ? least[j] : x[i + j];
      largest[j] = largest[j] > x[i + j] ? largest[j] : x[i + j];
    }
  const auto widen = [&](float a, float b) { *low = a < *low ? a : *low, *high = b > *high ? b : *high; };
  for (int64_t j = 0; j < SIDE && i; j++) widen(least[j], largest[j]);
  for (; i < count; i++) widen(x[i], x[i]);
  *low = 0 < *low ? 0 : *low, *high = *high < 0 ? 0 : *high;
}

// sizes: products beside each other, rows of x, rows of the weights, columns of both, the largest level, whether there is a bias.
// packed: (weights in 16s, columns in fours, 64), or nothing.
ffi::Error linear_dynamic(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::S8> weights,
                          ffi::Buffer<ffi::S8> packed, ffi::Buffer<ffi::S32> sums, ffi::Buffer<ffi::F32> scales,
                          ffi::Buffer<ffi::F32> bias, ffi::Result<ffi::Buffer<ffi::F32>> y, Integers sizes) {
  static const auto range_of = BEST(range_of);
  static const auto to_bytes = BEST(to_bytes);
  static const auto multiply_levels = BEST(multiply_levels);
  const int64_t batches = sizes[0], m = sizes[1], n = sizes[2], depth = sizes[3];
  const int64_t words = (depth + EACH - 1) / EACH, down = words * EACH, vectors = (n + LANES - 1) / LANES;
  const InFloatMode mode(FloatMode::exact());
  Scratch room((m * down + 3) / 4);
  auto* levels = reinterpret_cast<uint8_t*>(room.data);
  for (int64_t b = 0; b < batches; b++) {
    const float* own = x.typed_data() + b * m * depth;
    float low = 0, high = 0;
    const int64_t pieces = parts(m * depth, 4096, tasks_for(2.0 * m * depth, pool));
    std::vector<float> ends(2 * pieces);
    share(pool, pieces, [&](int64_t task) {
      const Range range = part(task, pieces, m * depth, 64);
      range_of(range.to - range.from, own + range.from, &ends[2 * task], &ends[2 * task + 1]);
    });
    for (int64_t i = 0; i < pieces; i++) {  // NaN stays
      low = ends[2 * i] < low || ends[2 * i] != ends[2 * i] ? ends[2 * i] : low;
      high = ends[2 * i + 1] > high || ends[2 * i + 1] != ends[2 * i + 1] ? ends[2 * i + 1] : high;
    }
    if (low != low) range_by_lanes(m * depth, own, &low, &high);
    const Affine affine(low, high, sizes[4]);
    const double inverse = 1 / affine.scale;  // in single precision
    const int64_t tasks = parts(m, 1, tasks_for(4.0 * m * depth, pool));
    share(pool, tasks, [&](int64_t task) {
      const Range range = part(task, tasks, m, 1);
      for (int64_t i = range.from; i < range.to; i++) {
        to_bytes(depth, own + i * depth, inverse, affine.point, levels + i * down);
        std::memset(levels + i * down + depth, 0, down - depth);
      }
    });
    const Scales after{affine.point, affine.scale, sums.typed_data() + b * n, scales.typed_data() + b * n,
                       sizes[5] ? bias.typed_data() + b * n : nullptr};
    float* to = y->typed_data() + b * m * n;
    constexpr double BYTE = 2;  // operations in whose time a byte of few rows is read
    const int64_t shares = parts(n, CHUNK, tasks_for(std::max(double(m) * n * depth / 8, BYTE * n * depth), pool));
    share(pool, shares, [&](int64_t task) {
#if defined(__x86_64__)
      if (has_vnni && packed.element_count()) {
        const Range range = part(task, shares, vectors, 1);
        const int8_t* from = packed.typed_data() + b * vectors * words * CHUNK;
        return vnni::multiply_levels(m, range.from, range.to, n, words, levels, down, from, after, to, n);
      }
#endif
      const Range range = part(task, shares, n, 1);
      multiply_levels(m, range.from, range.to, depth, levels, down, weights.typed_data() + b * n * depth, after, to, n);
    });
  }
  return ffi::Error::Success();
}

}  // namespace

// Whether the processor multiplies and adds four bytes at once: then weights are worth laying out for it.
extern "C" int64_t ftorch_multiplies_bytes() { return has_vnni; }

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_linear_dynamic, guarded(linear_dynamic),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::S8>>()
                                  .Arg<ffi::Buffer<ffi::S8>>().Arg<ffi::Buffer<ffi::S32>>().Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<Integers>("sizes"));

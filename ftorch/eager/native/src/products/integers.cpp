// Matrix products of int8 as int32. Both operands are read along the terms, four of which processors with VNNI multiply and
// add at once in each lane: the left one's then have no signs, so they are 128 larger, which is taken off by the sums of the
// right one's.

#include <cstring>
#include <string>
#include <type_traits>

#include "operands.h"
#include "threads/threads.h"

namespace {

using Bytes = ffi::Buffer<ffi::S8>;

constexpr int64_t CHUNK = 64;  // bytes of a vector; the left operand's rows are filled up to whole ones

#define KERNELS "products/integers.inc"
#include "vectors/instructions.inc"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma,bmi2")
namespace vnni {

constexpr uint8_t SHIFT = 128;

#include "products/words.inc"

struct Quads {
  using Sum = __m512i;
  static constexpr int64_t SIZE = 1;
  static inline __attribute__((always_inline)) Sum step(Sum sums, __m512i left, __m512i right) {
    return _mm512_dpbusd_epi32(sums, left, right);
  }
  static inline __attribute__((always_inline)) Sum add(Sum x, Sum y) { return _mm512_add_epi32(x, y); }
};

constexpr int64_t FEW = 8;  // rows up to which both operands are read along the terms

// c (m, n) = a (m, depth) b (n, depth) transposed of many rows.
void multiply_panels(int64_t m, int64_t n, int64_t depth, const int8_t* a, int64_t down, const int8_t* b, int64_t along,
                     int64_t across, int32_t* c, int64_t stride) {
  multiply_words<Quads>(
      m, n, depth, reinterpret_cast<const char*>(a), down, {reinterpret_cast<const char*>(b), along, across},
      [](const int32_t* words, int64_t count, int64_t width) {
        const __m512i shift = _mm512_set1_epi8(char(SHIFT));
        __m512i sums = _mm512_setzero_si512();
        for (int64_t k = 0; k < count; k++) sums = _mm512_dpbusd_epi32(sums, shift, _mm512_loadu_si512(words + k * width));
        return _mm512_sub_epi32(_mm512_setzero_si512(), sums);
      },
      [&](int64_t i, int64_t j, __m512i sums, __mmask16 lanes)
          __attribute__((always_inline)) { _mm512_mask_storeu_epi32(c + i * stride + j, lanes, sums); });
}

// The sums of the lanes of four vectors.
inline __m128i totals(const __m512i* sums) {
  const auto half = [](__m512i x) __attribute__((always_inline)) {
    return _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
  };
  const __m256i first = _mm256_hadd_epi32(half(sums[0]), half(sums[1]));
  const __m256i second = _mm256_hadd_epi32(half(sums[2]), half(sums[3]));
  const __m256i both = _mm256_hadd_epi32(first, second);
  return _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}

// A tile of M rows and four columns, of which `valid` exist: rows of b behind them repeat the last.
template <int M>
inline __attribute__((always_inline)) void tile(int64_t depth, const uint8_t* a, int64_t down, const int8_t* const* b,
                                                __m128i shifts, int32_t* c, int64_t stride, __mmask8 valid) {
  __m512i sums[M][4];
#pragma GCC unroll 8
  for (int i = 0; i < M; i++)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) sums[i][j] = _mm512_setzero_si512();
  for (int64_t k = 0; k < depth; k += CHUNK) {
    const int64_t count = depth - k;
    const __mmask64 mask = count >= CHUNK ? ~__mmask64{} : (__mmask64{1} << count) - 1;
    __m512i right[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) right[j] = _mm512_maskz_loadu_epi8(mask, b[j] + k);
#pragma GCC unroll 8
    for (int i = 0; i < M; i++) {
      const __m512i left = _mm512_loadu_si512(a + i * down + k);
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], left, right[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; i++)
    _mm_mask_storeu_epi32(c + i * stride, valid, _mm_sub_epi32(totals(sums[i]), shifts));
}

void multiply_rows(int64_t m, int64_t n, int64_t depth, const int8_t* from, int64_t down, const int8_t* right, int64_t across,
                   int32_t* c, int64_t stride) {
  const auto* a = reinterpret_cast<const uint8_t*>(from);
  const __m512i shift = _mm512_set1_epi8(char(SHIFT));
  for (int64_t j = 0; j < n; j += 4) {
    const int8_t* b[4];
    for (int i = 0; i < 4; i++) b[i] = right + std::min(j + i, n - 1) * across;
    const __mmask8 valid = n - j >= 4 ? 15 : (1 << (n - j)) - 1;
    __m512i sums[4] = {};
    for (int64_t k = 0; k < depth; k += CHUNK) {
      const int64_t count = depth - k;
      const __mmask64 mask = count >= CHUNK ? ~__mmask64{} : (__mmask64{1} << count) - 1;
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++)
        sums[i] = _mm512_dpbusd_epi32(sums[i], shift, _mm512_maskz_loadu_epi8(mask, b[i] + k));
    }
    const __m128i shifts = totals(sums);
    int64_t i = 0;
    for (; i + 6 <= m; i += 6) tile<6>(depth, a + i * down, down, b, shifts, c + i * stride + j, stride, valid);
    a += i * down, c += i * stride;
    switch (m - i) {
      case 5: tile<5>(depth, a, down, b, shifts, c + j, stride, valid); break;
      case 4: tile<4>(depth, a, down, b, shifts, c + j, stride, valid); break;
      case 3: tile<3>(depth, a, down, b, shifts, c + j, stride, valid); break;
      case 2: tile<2>(depth, a, down, b, shifts, c + j, stride, valid); break;
      case 1: tile<1>(depth, a, down, b, shifts, c + j, stride, valid); break;
    }
    a -= i * down, c -= i * stride;
  }
}

}  // namespace vnni
#pragma GCC pop_options

const bool has_vnni = best_instructions() == AVX512 && __builtin_cpu_supports("avx512vnni");
#define BEST_INTEGERS(name) (has_vnni ? vnni::name : BEST(name))
#else
#define BEST_INTEGERS(name) BEST(name)
#endif

const auto multiply_rows = BEST_INTEGERS(multiply_rows);
const uint8_t shift = BEST_INTEGERS(SHIFT);

// A matrix's rows, `filled` bytes each, every number `more` larger.
void lay_out(int64_t rows, int64_t columns, const int8_t* from, int64_t down, int64_t across, int64_t filled, uint8_t more,
             int8_t* to) {
  constexpr int64_t FEW = 64;  // rows and columns at a time, where neighbours lie apart
  for (int64_t i = 0; i < rows; i++) std::memset(to + i * filled + columns, 0, filled - columns);
  const int64_t step = across == 1 ? columns : FEW;
  for (int64_t k = 0; k < columns; k += step)
    for (int64_t i = 0; i < rows; i++) {
      const int64_t last = std::min(columns, k + step);
      int8_t* row = to + i * filled;
      const int8_t* source = from + i * down;
      if (across == 1) for (int64_t l = k; l < last; l++) row[l] = source[l] ^ int8_t(more);
      else for (int64_t l = k; l < last; l++) row[l] = source[l * across] ^ int8_t(more);
    }
}

inline int64_t whole(int64_t bytes) { return (bytes + CHUNK - 1) / CHUNK * CHUNK; }

// sizes: rows, columns, terms, of each of the outer loops' products; left, right: steps of the outer loops, then the rows' and
// the terms' of a, the terms' and the columns' of b; result: steps of the outer loops, then the rows'.
ffi::Error multiply_bytes(ffi::ThreadPool pool, Bytes a, Bytes b, ffi::Result<ffi::Buffer<ffi::S32>> c, Integers sizes,
                          Integers outer, Integers left, Integers right, Integers result) {
  constexpr double BYTE = 2;        // operations in whose time a byte of few rows is read
  constexpr int64_t ROWS = 1 << 18;  // bytes of the left operand that a block of columns meets
  const int64_t m = sizes[0], n = sizes[1], depth = sizes[2], filled = whole(depth);
  const double operations = std::max(double(m) * n * depth / 8, BYTE * (double(m) + n) * depth);
  for (int64_t u = 0; u < outer[0]; u++)
    for (int64_t v = 0; v < outer[1]; v++) {
      const int8_t* x = a.typed_data() + u * left[0] + v * left[1];
      const int8_t* y = b.typed_data() + u * right[0] + v * right[1];
      int32_t* z = c->typed_data() + u * result[0] + v * result[1];
      Scratch room((m * filled + 3) / 4);
      auto* rows = reinterpret_cast<int8_t*>(room.data);
      const int64_t tasks = parts(n, 16, tasks_for(operations, pool));
      lay_out(m, depth, x, left[2], left[3], filled, shift, rows);
      share(pool, tasks, [&](int64_t task) {
        const Range range = part(task, tasks, n, 16);
#if defined(__x86_64__)
        if (has_vnni && m > vnni::FEW)
          return vnni::multiply_panels(m, range.to - range.from, depth, rows, filled, y + range.from * right[3], right[2],
                                       right[3], z + range.from, result[2]);
#endif
        const int64_t block = std::max<int64_t>(6, ROWS / filled / 6 * 6), few = right[2] == 1 ? n : 64;
        Scratch turned(right[2] == 1 ? 0 : (few * filled + 3) / 4);
        for (int64_t j = range.from; j < range.to; j += few) {
          const int64_t count = std::min(few, range.to - j);
          const int8_t* columns = y + j * right[3];
          int64_t across = right[3];
          if (right[2] != 1) {
            auto* to = reinterpret_cast<int8_t*>(turned.data);
            lay_out(count, depth, columns, right[3], right[2], filled, 0, to);
            columns = to, across = filled;
          }
          for (int64_t i = 0; i < m; i += block)
            multiply_rows(std::min(block, m - i), count, depth, rows + i * filled, filled, columns, across,
                          z + i * result[2] + j, result[2]);
        }
      });
    }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply_bytes, guarded(multiply_bytes),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Bytes>().Arg<Bytes>().Ret<ffi::Buffer<ffi::S32>>()
                                  .Attr<Integers>("sizes").Attr<Integers>("outer").Attr<Integers>("left")
                                  .Attr<Integers>("right").Attr<Integers>("result"));

// Convolutions of bfloat16 by processors that multiply pairs of them. As in `conv.inc` nothing is gathered; two channels' elements
// lie in one word, in the padded images and in the packed weights, so an element of that is read where it lies.

#include <cstring>
#include <string>

#include "operands.h"
#include "products/convolution.h"
#include "products/product.h"
#include "threads/threads.h"

namespace {

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,avx2,fma,bmi2")

#include "products/words.inc"

constexpr int64_t WIDTH = ACROSS * LANES;  // outputs of a panel at most

// 16 words of two rows; `high` is null where there is no such.
inline __m512i words_of(const uint16_t* low, const uint16_t* high, __mmask16 lanes) {
  const __m512i first = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, low));
  if (!high) return first;
  return _mm512_or_si512(first, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, high)), 16));
}

// The pairs of channels [from, to) of an image with zeros around them: to (pairs, padded image).
void lay_out(const Convolution& c, int64_t channels, const uint16_t* image, Range pairs, uint32_t* to) {
  const int64_t* e = c.extent;
  for (int64_t i = pairs.from; i < pairs.to; i++) {
    const uint16_t* low = image + 2 * i * c.image();
    const uint16_t* high = 2 * i + 1 < channels ? low + c.image() : nullptr;
    uint32_t* plane = to + i * c.padded_image();
    if (c.pads()) std::memset(plane, 0, c.padded_image() * sizeof(uint32_t));
    const int64_t row = c.pads() ? e[2] : c.image(), rows = c.image() / row;
    for (int64_t r = 0; r < rows; r++) {
      uint32_t* line = plane;
      if (c.pads()) line += ((r / e[1] + c.before[0]) * c.padded[1] + r % e[1] + c.before[1]) * c.padded[2] + c.before[2];
      for (int64_t x = 0; x < row; x += LANES) {
        const __mmask16 lanes = first_lanes(row - x);
        const int64_t at = r * row + x;
        _mm512_mask_storeu_epi32(line + x, lanes, words_of(low + at, high ? high + at : nullptr, lanes));
      }
    }
  }
}

// The weight's outputs [first, first + valid) as packed columns: to (pairs * taps, width).
void pack_weight(const Convolution& c, int64_t channels, const uint16_t* weight, int64_t first, int64_t valid, int64_t width,
                 int32_t* to) {
  const int64_t taps = product(c.window), words = c.channels * taps, filled = (words + LANES - 1) / LANES * LANES;
  Scratch room(LANES * filled);
  auto* lines = reinterpret_cast<int32_t*>(room.data);
  for (int64_t o = 0; o < width; o += LANES) {
    for (int64_t r = 0; r < LANES; r++) {
      int32_t* line = lines + r * filled;
      if (o + r >= valid) {
        std::memset(line, 0, filled * sizeof(int32_t));
        continue;
      }
      const uint16_t* from = weight + (first + o + r) * c.by_output;
      if (taps == 1 && channels % 2 == 0) {
        std::memcpy(line, from, words * sizeof(int32_t));
        continue;
      }
      for (int64_t i = 0; i < c.channels; i++, from += 2 * taps)
        for (int64_t t = 0; t < taps; t += LANES) {
          const __mmask16 lanes = first_lanes(taps - t);
          const uint16_t* high = 2 * i + 1 < channels ? from + taps + t : nullptr;
          _mm512_mask_storeu_epi32(line + i * taps + t, lanes, words_of(from + t, high, lanes));
        }
    }
    for (int64_t k = 0; k < words; k += LANES) {
      __m512i rows[LANES];
#pragma GCC unroll 16
      for (int r = 0; r < LANES; r++) rows[r] = _mm512_loadu_si512(lines + r * filled + k);
      turn_words(rows, std::min<int64_t>(LANES, words - k), to + k * width + o, width);
    }
  }
}

// to (8, `stride`) = the transpose of eight rows of eight numbers, of which `outputs` and `pixels` exist.
inline void turn_block(const uint16_t* from, int64_t width, uint16_t* to, int64_t stride, int64_t outputs, int64_t pixels) {
  __m128i rows[8], pairs[8], fours[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * width));
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    pairs[2 * i] = _mm_unpacklo_epi16(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm_unpackhi_epi16(rows[2 * i], rows[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      fours[i + 2 * j] = _mm_unpacklo_epi32(pairs[i + j], pairs[i + 2 + j]);
      fours[i + 2 * j + 1] = _mm_unpackhi_epi32(pairs[i + j], pairs[i + 2 + j]);
    }
  const __mmask8 lanes = (1 << pixels) - 1;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    if (2 * i < outputs) _mm_mask_storeu_epi16(to + 2 * i * stride, lanes, _mm_unpacklo_epi64(fours[i], fours[4 + i]));
    if (2 * i + 1 < outputs) _mm_mask_storeu_epi16(to + (2 * i + 1) * stride, lanes, _mm_unpackhi_epi64(fours[i], fours[4 + i]));
  }
}

// M pixels of N vectors of outputs: found (8, N * LANES).
template <int M, int N>
void tile(int64_t terms, const uint32_t* x, const int64_t* pixels, const int64_t* offsets, const int32_t* packed,
          const float* bias, uint16_t* found) {
  __m512 sums[M][N];
#pragma GCC unroll 8
  for (int i = 0; i < M; i++)
#pragma GCC unroll 4
    for (int j = 0; j < N; j++) sums[i][j] = _mm512_setzero_ps();
  const uint32_t* from[M];
#pragma GCC unroll 8
  for (int i = 0; i < M; i++) from[i] = x + pixels[i];
#pragma GCC unroll 2
  for (int64_t k = 0; k < terms; k++) {
    const int64_t offset = offsets[k];
    __m512i right[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; j++) right[j] = _mm512_loadu_si512(packed + (k * N + j) * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < M; i++) {
      const __m512i left = _mm512_set1_epi32(from[i][offset]);
#pragma GCC unroll 4
      for (int j = 0; j < N; j++) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], (__m512bh)left, (__m512bh)right[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; i++)
#pragma GCC unroll 4
    for (int j = 0; j < N; j++) {
      const __m512 all = bias ? _mm512_add_ps(sums[i][j], _mm512_loadu_ps(bias + j * LANES)) : sums[i][j];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(found + (i * N + j) * LANES), (__m256i)_mm512_cvtneps_pbh(all));
    }
}

typedef void (*Tile)(int64_t, const uint32_t*, const int64_t*, const int64_t*, const int32_t*, const float*, uint16_t*);

template <int N>
Tile tile_of(int64_t rows) {
  switch (rows) {
    case 1: return tile<1, N>;
    case 2: return tile<2, N>;
    case 3: return tile<3, N>;
    case 4: return tile<4, N>;
    case 5: return tile<5, N>;
    case 6: return tile<6, N>;
    case 7: return tile<7, N>;
    default: return tile<8, N>;
  }
}

// Some pixels of an image (from `place` on) and a panel of `outputs` columns, in tiles of about as many pixels: to (outputs, all).
void gather(const uint32_t* x, const std::vector<int64_t>& pixels, Range range, const std::vector<int64_t>& offsets,
            const int32_t* packed, int64_t width, const float* bias, int64_t outputs, uint16_t* to) {
  alignas(64) uint16_t found[DOWN * WIDTH];
  const int64_t count = range.to - range.from, tiles = (count + DOWN - 1) / DOWN, all = pixels.size();
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t first = range.from + count * t / tiles, rows = range.from + count * (t + 1) / tiles - first;
    const Tile run = width == LANES ? tile_of<1>(rows) : width == 2 * LANES ? tile_of<2>(rows) : tile_of<3>(rows);
    run(offsets.size(), x, pixels.data() + first, offsets.data(), packed, bias, found);
    for (int64_t o = 0; o < outputs; o += 8)
      turn_block(found + o, width, to + o * all + first, all, std::min<int64_t>(8, outputs - o), rows);
  }
}

#pragma GCC pop_options
#endif

// sizes: images, groups, channels and outputs of a group, whether there is a bias. The results are of bfloat16.
ffi::Error convolve_pairs(ffi::ThreadPool pool, ffi::Buffer<ffi::BF16> x, ffi::Buffer<ffi::BF16> weight, ffi::Buffer<ffi::BF16> bias,
                          ffi::Result<ffi::Buffer<ffi::BF16>> y, Integers sizes, Integers extent, Integers out, Integers window,
                          Integers stride, Integers low, Integers dilation) {
#if defined(__x86_64__)
  const int64_t images = sizes[0], groups = sizes[1], channels = sizes[2], outputs = sizes[3], taps = window[0] * window[1] * window[2];
  const int64_t words[] = {images, groups, (channels + 1) / 2, outputs, channels * taps, taps, outputs * channels * taps, 0};
  const int64_t ones[] = {1, 1, 1};
  const Convolution c(Integers(words, 8), extent, out, window, stride, low, dilation, Integers(ones, 3));
  const Phase& phase = c.phases[0];
  const auto pixels = c.of_pixels(phase), terms = c.of_taps(phase);
  const int64_t count = pixels.size(), depth = terms.size(), padded = c.channels * c.padded_image(), parallel = images * groups;
  const auto* from = reinterpret_cast<const uint16_t*>(x.typed_data());
  const auto* weights = reinterpret_cast<const uint16_t*>(weight.typed_data());
  auto* to = reinterpret_cast<uint16_t*>(y->typed_data());
  const int64_t vectors = (outputs + LANES - 1) / LANES, panels = (vectors + ACROSS - 1) / ACROSS;
  const auto at = [&](int64_t panel) { return vectors * panel / panels * LANES; };

  std::vector<float> wide(sizes[4] ? groups * vectors * LANES : 0);  // the bias, each group's filled up
  for (int64_t g = 0; g < groups && sizes[4]; g++)
    for (int64_t o = 0; o < outputs; o++) {
      const uint32_t bits = uint32_t(reinterpret_cast<const uint16_t*>(bias.typed_data())[g * outputs + o]) << 16;
      std::memcpy(&wide[g * vectors * LANES + o], &bits, sizeof bits);
    }

  const int64_t wanted = tasks_for(double(parallel) * count * outputs * depth, pool);
  const int64_t blocks = parts(count, DOWN, std::max<int64_t>(1, wanted / parallel));
  const bool ahead = blocks > 1;  // an image of several tasks is laid out once, before them
  Scratch packed(groups * vectors * LANES * depth), laid(ahead ? parallel * padded : 0);
  const auto image_of = [&](int64_t i) { return from + i * channels * c.image(); };
  const int64_t packs = groups * panels, each = ahead ? std::min<int64_t>(c.channels, std::max<int64_t>(1, wanted / parallel)) : 0;
  share(pool, packs + parallel * each, [&](int64_t i) {
    if (i < packs) {
      const int64_t g = i / panels, p = i % panels, first = at(p);
      pack_weight(c, channels, weights + g * c.by_group, first, std::min(outputs, at(p + 1)) - first, at(p + 1) - first,
                  reinterpret_cast<int32_t*>(packed.data) + (g * vectors * LANES + first) * depth);
    } else {
      const int64_t own = (i - packs) / each;
      lay_out(c, channels, image_of(own), part((i - packs) % each, each, c.channels, 1),
              reinterpret_cast<uint32_t*>(laid.data) + own * padded);
    }
  });
  const int64_t all = parallel * blocks, chunk = std::max<int64_t>(1, all / (4 * wanted));
  share(pool, (all + chunk - 1) / chunk, [&](int64_t task) {
    Scratch own(ahead ? 0 : padded);
    for (int64_t i = task * chunk; i < std::min(all, (task + 1) * chunk); i++) {
      const int64_t outer = i / blocks, g = outer % groups;
      const Range range = part(i % blocks, blocks, count, DOWN);
      auto* image = reinterpret_cast<uint32_t*>(ahead ? laid.data + outer * padded : own.data);
      if (!ahead) lay_out(c, channels, image_of(outer), {0, c.channels}, image);
      for (int64_t p = 0; p < panels; p++) {
        const int64_t first = at(p), column = g * vectors * LANES + first;
        gather(image, pixels, range, terms, reinterpret_cast<const int32_t*>(packed.data) + column * depth, at(p + 1) - first,
               wide.empty() ? nullptr : wide.data() + column, std::min(outputs, at(p + 1)) - first,
               to + (outer * outputs + first) * count);
      }
    }
  });
  return ffi::Error::Success();
#else
  return ffi::Error(ffi::ErrorCode::kUnimplemented, "no pairs of bfloat16");
#endif
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_convolve_pairs, guarded(convolve_pairs),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::BF16>>().Arg<ffi::Buffer<ffi::BF16>>()
                                  .Arg<ffi::Buffer<ffi::BF16>>().Ret<ffi::Buffer<ffi::BF16>>().Attr<Integers>("sizes")
                                  .Attr<Integers>("extent").Attr<Integers>("out").Attr<Integers>("window").Attr<Integers>("stride")
                                  .Attr<Integers>("low").Attr<Integers>("dilation"));

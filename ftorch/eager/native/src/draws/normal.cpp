// Uniform numbers, and few normal numbers at once, where a program of XLA's would cost more than they do: the arithmetic of
// `ftorch.eager.sampling.normal`, operation by operation.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

// A sum and a product are two roundings here, a fused multiply-add is asked for by name.
#pragma GCC optimize("fp-contract=off")
#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace {

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

inline float logarithm(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, 4);
  float exponent = (bits >> 23) - 126;
  bits = (bits & 0x7FFFFF) | 0x3F000000;
  std::memcpy(&x, &bits, 4);
  const bool small = x < 0.707106781186547524f;
  exponent -= small ? 1.0f : 0.0f;
  x = (x - 1.0f) + (small ? x : 0.0f);
  const float square = x * x;
  float y = 7.0376836292e-2f;
  for (const float c : {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                        -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f})
    y = fma(y, x, c);
  y = fma(y * x, square, exponent * -2.12194440e-4f);
  y = y - square * 0.5f;
  return fma(exponent, 0.693359375f, x + y);
}

inline float horner(float x, float a, float b, float c) { return fma(fma(x, a, b), x, c); }

inline void direction(float x, float* sine, float* cosine) {
  const int32_t octant = (int32_t(x * 1.27323954473516f) + 1) & ~1;
  const float turns = octant;
  for (const float part : {-0.78515625f, -2.4187564849853515625e-4f, -3.77489497744594108e-8f})
    x = fma(turns, part, x);
  const float square = x * x;
  float c = horner(square, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f);
  c = fma(square, square * c, -(square * 0.5f)) + 1.0f;
  float s = horner(square, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f);
  s = fma(x, square * s, x);
  const float sin = octant & 2 ? c : s, cos = octant & 2 ? s : c;
  *sine = octant & 4 ? -sin : sin;
  *cosine = (octant + 2) & 4 ? -cos : cos;
}

inline float uniform(uint32_t word) { return float(int32_t(word & 0xFFFFFF)) * 0x1p-24f; }

void spread(const uint32_t* words, int64_t count, float low, float range, float* out) {
  for (int64_t i = 0; i < count; i++) out[i] = fma(uniform(words[i]), range, low);
}

void fill(const uint32_t* words, int64_t count, float mean, float std, float* out) {
  for (int64_t g = 0; g < count; g += 16)
    for (int64_t i = g; i < g + 8; i++) {
      const float radius = std::sqrt(-2.0f * logarithm(1.0f - uniform(words[i])));
      float sine, cosine;
      direction(6.283185307179586f * uniform(words[i + 8]), &sine, &cosine);
      out[i] = fma(radius * cosine, std, mean);
      out[i + 8] = fma(radius * sine, std, mean);
    }
}

}  // namespace

#if defined(__x86_64__)
#pragma GCC pop_options
#endif

// Of each 16 words, eight radii then eight angles, eight cosines then eight sines. Without fused instructions
// nothing is written, and the caller's trial fails.
extern "C" void ftorch_normal(const uint32_t* words, int64_t count, float mean, float std, float* out) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
#endif
  fill(words, count, mean, std, out);
}

// Numbers from `low` on, one for each word. Without fused instructions as above.
extern "C" void ftorch_uniform(const uint32_t* words, int64_t count, float low, float range, float* out) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
#endif
  spread(words, count, low, range, out);
}

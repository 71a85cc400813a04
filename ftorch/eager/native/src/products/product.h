// Matrix products of float32 as functions: those of `handlers.cpp` and `outer.cpp`.
#pragma once

#include <algorithm>

#include "calls.h"

// c = a b for each of two outer loops. sizes: rows, columns, terms; outer: the two loops' sizes; left, right, result: how
// far apart elements lie along the two loops, then the rows' and the terms' of a, the terms' and the columns' of b, the
// rows' of c. One of a's last two is 1 if there are several rows.
struct Product {
  int64_t sizes[3], outer[2], left[4], right[4], result[3];
};

// Products of few rows read weights once, row by row, and the processor looks ahead only within a page: of short rows hardly.
// So they ask for the lines that they read next but some: so many bytes, or rows of so many bytes, whole groups of them.
constexpr int64_t LINE = 64, AHEAD = 4096;

inline int64_t rows_ahead(int64_t group, int64_t bytes) {
  return bytes <= 0 ? group : (AHEAD + group * bytes - 1) / (group * bytes) * group;
}

inline Product product_of(Integers sizes, Integers outer, Integers left, Integers right, Integers result) {
  Product p;
  std::copy(sizes.begin(), sizes.end(), p.sizes), std::copy(outer.begin(), outer.end(), p.outer);
  std::copy(left.begin(), left.end(), p.left), std::copy(right.begin(), right.end(), p.right);
  std::copy(result.begin(), result.end(), p.result);
  return p;
}

void multiply(ffi::ThreadPool pool, const Product& product, const float* a, const float* b, float* c);
// The same with a single term.
void multiply_outer(ffi::ThreadPool pool, const Product& product, const float* a, const float* b, float* c);

// Whether the processor multiplies pairs of bfloat16, and then a product of such with a result of float32.
extern "C" int64_t ftorch_multiplies_bfloat16();
void multiply_pairs(ffi::ThreadPool pool, const Product& product, const void* a, const void* b, float* c);

// What elementwise programs are made of, for each set of instructions.

#include "elementwise/elementwise.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// A product and a sum are two roundings, as they are in separate operations.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off", "no-trapping-math", "no-math-errno")
#endif

namespace elementwise {
namespace {

#define KERNELS "elementwise/elementwise.inc"
#include "vectors/instructions.inc"

}  // namespace

int64_t size_of(Type type) {
  switch (type) {
#define CASE(name, of) case name: return sizeof(of);
    ELEMENT_TYPES(CASE)
#undef CASE
    default: return 0;
  }
}

Step step_of(Operation operation, Type type, Type other) {
  static const auto best = BEST(step_of);
  return best(operation, type, other);
}

const Reducer* reducer_of(Reduction reduction, Type type) {
  static const auto best = BEST(reducer_of);
  return best(reduction, type);
}

void fill(int64_t count, void* to, const void* value, int64_t size) {
  static const auto best = BEST(fill);
  best(count, to, value, size);
}

Type result_of(Operation operation, Type type, Type other) {
  if (operation == CONVERT) return other;
  return (operation >= EQ && operation <= GE) || operation == IS_FINITE ? BOOL : type;
}

double cost_of(Operation operation, Type type) {
  const double width = size_of(type) / 4.0;
  switch (operation) {
    case DIV: case SQRT: case RSQRT: case REM: return 4 * width * width;
    case EXP: case EXP2: case LOG: case TANH: case LOGISTIC: case ERF: return 8 * width * width;
    case EXPM1: case LOG1P: case SIN: case COS: case ERFC: return 20 * width;
    case POW: return type == F32 ? 40 : 200;
    case ATAN2: case CBRT: case TAN: case ASIN: case ACOS: case ATAN: case SINH: case COSH: case ASINH: case ACOSH:
    case ATANH: return 150;
    default: return width;
  }
}

}  // namespace elementwise

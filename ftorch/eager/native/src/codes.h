// Numbers by which Python names things to the kernels: in each list from 0 on. `native/codes.py` has the same lists; where
// they differ from those that were built, the kernels are not used.
#pragma once

#include <cstdint>

// What becomes of a product's results (`Change` in operands.h).
#define EPILOGUES(use) use(ADD) use(SUBTRACT) use(MULTIPLY) use(RECTIFY) use(MASK)

// Steps of several results (groups.cpp).
#define GROUP_STEPS(use) \
  use(PLUS) use(MINUS) use(TIMES) use(OVER) use(GREATER) use(LESS) use(NEGATIVE) use(ABSOLUTE) use(SIGN) use(SQUARE) \
  use(ROOT) use(CHOICE)

// Cumulative functions (scans_and_sorts.cpp).
#define SCANS(use) use(SUM) use(PRODUCT) use(MAXIMUM) use(MINIMUM) use(LOG_SUM)

// Which elements are looked for: that of a rank, the first ones in any order, or sorted (scans_and_sorts.cpp).
#define SELECTIONS(use) use(RANKED) use(TOP) use(SORTED_TOP)

struct Half { uint16_t bits; };   // float16
struct Brain { uint16_t bits; };  // bfloat16

// Of elementwise programs (elementwise.h): types of elements, operations (SELECT is (which, where it is false, where it is
// true), CLAMP (least, x, greatest)), reductions. Floats of 16 bits (elementwise.h) are moved, and converted from and to F32.
#define ELEMENT_TYPES(use) \
  use(BOOL, bool) use(I8, int8_t) use(U8, uint8_t) use(I16, int16_t) use(I32, int32_t) use(U32, uint32_t) \
  use(I64, int64_t) use(F32, float) use(F64, double) use(F16, Half) use(BF16, Brain)
#define OPERATIONS(use) \
  use(ADD) use(SUB) use(MUL) use(DIV) use(REM) use(MAX) use(MIN) use(POW) use(ATAN2) use(AND) use(OR) use(XOR) \
  use(SHIFT_LEFT) use(SHIFT_RIGHT_LOGICAL) use(SHIFT_RIGHT_ARITHMETIC) use(EQ) use(NE) use(LT) use(LE) use(GT) use(GE) \
  use(NEG) use(ABS) use(SIGN) use(NOT) use(FLOOR) use(CEIL) use(ROUND_EVEN) use(ROUND_AWAY) use(IS_FINITE) use(SQRT) \
  use(RSQRT) use(CBRT) use(EXP) use(EXP2) use(EXPM1) use(LOG) use(LOG1P) use(TANH) use(LOGISTIC) use(ERF) use(ERFC) \
  use(SIN) use(COS) use(TAN) use(ASIN) use(ACOS) use(ATAN) use(SINH) use(COSH) use(ASINH) use(ACOSH) use(ATANH) \
  use(SELECT) use(CLAMP) use(COPY) use(CONVERT)
#define REDUCTIONS(use) use(SUM) use(PRODUCT) use(GREATEST) use(LEAST) use(ALL) use(ANY)

// What few random numbers are drawn of (draws.cpp).
#define DRAWS(use) use(UNIFORM32) use(UNIFORM64) use(INTEGER) use(PERMUTATION) use(COIN)

// How an in-place call is done in memory (writes.cpp), from 1 on.
#define WRITES(use) \
  use(NO_WRITE) use(FILL) use(COPY) use(SET_ROWS) use(ADD_ROWS) use(FILL_ROWS) use(SET_ELEMENTS) use(ADD_ELEMENTS) \
  use(FILL_ELEMENTS) use(COMPUTE) use(PUT) use(ADD_AT)

// What a call of a public function comes to (public_functions.cpp; OUT: the last operand is what is written to; ASK: a class
// of tensors has a say), and what a plain tensor's geometry answers by itself.
#define CALLS(use) use(SLOW) use(CALL) use(INPLACE) use(VIEW) use(OUT) use(ASK)
#define GETTERS(use) use(NONE) use(DIM) use(NUMEL) use(SIZE) use(STRIDE) use(IS_CONTIGUOUS)

#define ENUMERATOR(name, ...) name,

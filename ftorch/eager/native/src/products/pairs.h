// Products of bfloat16 in the calling thread.
#pragma once

#include <cstdint>

extern "C" int64_t ftorch_multiplies_bfloat16();  // whether the processor has instructions for pairs of them

// c (m, n) = a (m, depth) b (depth, n), where the processor has those: a's terms lie one behind the other.
void multiply_pairs_here(int64_t m, int64_t n, int64_t depth, const uint16_t* a, int64_t down, const uint16_t* b,
                         int64_t b_down, int64_t b_across, float* c, int64_t stride);

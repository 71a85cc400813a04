// Operands and memory of the kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "codes.h"

struct Matrix {
  const float* data;
  int64_t down, across;  // steps between rows and columns
};

// Whether some bytes behind an array's end may be read: no page begins there. What they are is not used.
inline bool can_read(const void* end, int64_t more) {
  return more <= 0 || (reinterpret_cast<uintptr_t>(static_cast<const char*>(end) - 1) & 4095) + more < 4096;
}

// What becomes of a product's results, by an operand whose elements lie `down` and `across` (0 or 1) apart.
struct Change {
  int64_t code;
  const float* data;
  int64_t down, across;
};

enum Code { EPILOGUES(ENUMERATOR) };

using Changes = std::vector<Change>;

// As how many floats so many numbers lie.
template <typename T>
constexpr int64_t floats_for(int64_t count) { return (count * sizeof(T) + sizeof(float) - 1) / sizeof(float); }

// Memory for the duration of a scope, kept by the thread for the next.
struct Scratch {
  float* data;
  explicit Scratch(int64_t count) {
    auto& kept = pool();
    size_t found = kept.size();
    for (size_t i = 0; i < kept.size(); i++)
      if (kept[i].size >= count && (found == kept.size() || kept[i].size < kept[found].size)) found = i;
    if (found < kept.size()) {
      block = kept[found];
      kept[found] = kept.back();
      kept.pop_back();
    } else {
      block.size = std::max<int64_t>(count, 1024);
      block.data = static_cast<float*>(std::aligned_alloc(64, (block.size * 4 + 63) / 64 * 64));
      if (!block.data) throw std::bad_alloc();
    }
    data = block.data;
  }
  ~Scratch() {
    auto& kept = pool();
    if (kept.size() < 6 && block.size <= (1 << 20)) kept.push_back(block);
    else std::free(block.data);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  struct Block { float* data; int64_t size; };
  struct Kept : std::vector<Block> {
    ~Kept() { for (Block& b : *this) std::free(b.data); }
  };
  static Kept& pool() {
    static thread_local Kept kept;
    return kept;
  }
  Block block;
};

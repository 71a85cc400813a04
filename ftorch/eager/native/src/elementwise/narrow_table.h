// The 65,536 values of a function of one number of 16 bits, made when so many were asked for that it pays.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

class NarrowTable {
 public:
  static constexpr int64_t COUNT = 1 << 16;

  NarrowTable() = default;
  NarrowTable(const NarrowTable&) = delete;
  NarrowTable& operator=(const NarrowTable&) = delete;
  ~NarrowTable() {
    if (const uint16_t* values = made.load()) delete[] values, tables().fetch_sub(1);
  }

  // The values, or null where `count` numbers are to be computed. make(numbers, values): computes all.
  template <typename Make>
  const uint16_t* values(int64_t count, const Make& make) {
    if (const uint16_t* there = made.load(std::memory_order_acquire)) return there;
    if (seen.fetch_add(count, std::memory_order_relaxed) < ENOUGH * COUNT) return nullptr;
    if (tables().fetch_add(1) >= MOST) {
      tables().fetch_sub(1);
      return nullptr;
    }
    std::unique_ptr<uint16_t[]> numbers(new uint16_t[COUNT]), found(new uint16_t[COUNT]);
    for (int64_t i = 0; i < COUNT; i++) numbers[i] = i;
    try {
      make(numbers.get(), found.get());
    } catch (...) {
      tables().fetch_sub(1);
      throw;
    }
    const uint16_t* there = nullptr;
    if (made.compare_exchange_strong(there, found.get())) return found.release();
    tables().fetch_sub(1);  // another thread was here, too
    return there;
  }

 private:
  static constexpr int64_t ENOUGH = 4;  // tables' worth of numbers that were computed before
  static constexpr int MOST = 256;      // of a process: 32 MB

  static std::atomic<int>& tables() {
    static std::atomic<int> count{0};
    return count;
  }

  std::atomic<const uint16_t*> made{nullptr};
  std::atomic<int64_t> seen{0};
};

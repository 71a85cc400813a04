// Work shared with the threads of the program that calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "calls.h"

constexpr double ALONE = 4e6;  // operations that are not worth a second thread (about 30 us)
constexpr double SHARE = 2e6;   // operations of a task at least

// How many tasks to make of this many operations.
inline int64_t tasks_for(double operations, ffi::ThreadPool& pool) {
  const int64_t threads = pool.num_threads();
  if (threads < 2 || operations < ALONE) return 1;
  return std::clamp<int64_t>(operations / SHARE, threads, 4 * threads);
}

// Runs task(0), ..., task(count - 1). The caller takes part, and waits only for tasks that somebody has
// begun: a pool whose threads are all busy (perhaps waiting here themselves) cannot hold it up. The first
// exception of a task is the caller's. The caller begins at the front and the others at the end, so that what
// the next call reads is likely to lie in the cache of the core that wrote it.
template <typename Task>
void share(ffi::ThreadPool& pool, int64_t count, const Task& task) {
  struct State {
    std::atomic<int64_t> begun{0}, done{0}, helped{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error;
  };
  const int64_t helpers = std::min(pool.num_threads(), count) - 1;
  if (helpers < 1) {
    for (int64_t i = 0; i < count; i++) task(i);
    return;
  }
  auto state = std::make_shared<State>();
  const auto work = [state, count, &task](bool helps) {
    for (int64_t own = 0; state->begun.fetch_add(1) < count; state->done.fetch_add(1)) try {
        task(helps ? count - 1 - state->helped.fetch_add(1) : own++);
      } catch (...) {
        if (!state->failed.exchange(true)) state->error = std::current_exception();
      }
  };
  for (int64_t i = 0; i < helpers; i++) pool.Schedule([work] { work(true); });
  work(false);
  while (state->done.load(std::memory_order_acquire) < count) std::this_thread::yield();
  if (state->error) std::rethrow_exception(state->error);
}

inline int64_t parts(int64_t all, int64_t unit, int64_t wanted) {  // how many parts of whole units
  return std::clamp<int64_t>((all + unit - 1) / unit, 1, wanted);
}

struct Range { int64_t from, to; };

inline Range part(int64_t i, int64_t count, int64_t all, int64_t unit) {
  const int64_t units = (all + unit - 1) / unit;
  return {units * i / count * unit, std::min(all, units * (i + 1) / count * unit)};
}

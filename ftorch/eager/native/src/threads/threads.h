// Work shared with the threads of the program that calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "calls.h"
#include "threads/crew.h"
#include "threads/interrupts.h"

constexpr double ALONE = 4e6;  // operations that are not worth waking a second thread (about 30 us)
constexpr double SHORT = 1e6;  // that are not worth one that is awake (about 8 us)
constexpr double SHARE = 1e6;  // operations of a task at least
constexpr double LONGEST = 4e9;  // at most, as far as a kernel can be cut: 30 to 100 ms, in between the caller looks for signals
constexpr std::chrono::microseconds LATE{30};  // for a helper to begin

// Threads that helped look for more work for a while before they sleep, and come 15 us late then.
class Awake {
 public:
  static void worked() { last().store(now(), std::memory_order_relaxed); }
  static bool is_awake() { return now() - last().load(std::memory_order_relaxed) < std::chrono::microseconds(8); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static Time now() { return std::chrono::steady_clock::now(); }
  static std::atomic<Time>& last() {
    static std::atomic<Time> time{Time()};
    return time;
  }
};

// How many tasks to make of this many operations.
inline int64_t tasks_for(double operations, ffi::ThreadPool& pool) {
  const int64_t threads = pool.num_threads();
  if (operations < SHORT) return 1;
  if (threads < 2) return 1 + operations / LONGEST;
  if (operations < ALONE && !Crew::looks_here() && !Awake::is_awake()) return 1;
  if (operations > 4 * LONGEST * threads) return operations / LONGEST;
  return std::clamp<int64_t>(operations / SHARE / threads, 1, 4) * threads;  // as many for each
}

// Into how many parts to cut what is summed apart, and then joined: as many whatever the number of threads and whoever
// is awake, so that the same numbers give the same bits.
inline int64_t sums_of(double operations) {
  return operations < ALONE ? 1 : std::clamp<int64_t>(operations / (2 * SHARE), 1, 8);
}

// How the processor treats subnormal numbers and rounds, for each thread; XLA's take subnormal numbers for zero.
class FloatMode {
 public:
#if defined(__x86_64__)
  static FloatMode of_thread() { return FloatMode(_mm_getcsr() & ~FLAGS); }
  static FloatMode exact() { return FloatMode(0x1F80); }  // nothing is flushed, to the nearest, no traps
  void set() const { _mm_setcsr(bits); }
  bool is_exact() const { return bits == exact().bits; }

 private:
  static constexpr unsigned FLAGS = 0x3F;  // of what has happened
  explicit FloatMode(unsigned bits) : bits(bits) {}
  unsigned bits;
#else
  static FloatMode of_thread() { return {}; }
  static FloatMode exact() { return {}; }
  void set() const {}
  bool is_exact() const { return true; }
#endif
};

// While it lasts, the thread has a mode.
struct InFloatMode {
  const FloatMode before = FloatMode::of_thread();
  explicit InFloatMode(const FloatMode& mode) { mode.set(); }
  ~InFloatMode() { before.set(); }
};

// While it lasts, the thread helps with what a flag says is given up; null: it does not help.
struct Helping {
  const std::atomic<bool>* const before = Watch::given_up();
  explicit Helping(const std::atomic<bool>* flag) {
    if (flag) Watch::given_up() = flag;
  }
  ~Helping() { Watch::given_up() = before; }
};

// A kernel's tasks, and how far they are. The caller begins at the front and the others at the end, so that what the
// next call reads is likely to lie in the cache of the core that wrote it.
template <typename Task>
struct Shared {
  const int64_t count;
  const Task& task;
  const FloatMode mode = FloatMode::of_thread();  // the caller's, for those that help
  std::atomic<int64_t> begun{0}, done{0}, helped{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;

  Shared(int64_t count, const Task& task) : count(count), task(task) {}

  void work(bool helps) {
    const InFloatMode own_mode(mode);
    const Helping own_flag(helps ? &failed : nullptr);
    const auto start = std::chrono::steady_clock::now();
    for (int64_t own = 0; begun.fetch_add(1) < count; done.fetch_add(1)) try {
        if (failed.load(std::memory_order_relaxed)) continue;
        if (!helps) Watch::look();
        if (own == 1 && !helped && std::chrono::steady_clock::now() - start > LATE) Helpers::send_off();
        task(helps ? count - 1 - helped.fetch_add(1) : own++);
      } catch (const Forked&) {
        throw;  // nobody would do what others have begun
      } catch (...) {
        fail();
      }
  }

  // Of the caller, while it waits.
  void look() {
    if (!failed.load(std::memory_order_relaxed)) try {
        Watch::look();
      } catch (const Forked&) {
        throw;
      } catch (...) {
        fail();
      }
  }

 private:
  void fail() {
    if (!failed.exchange(true)) error = std::current_exception();
  }
};

// Runs task(0), ..., task(count - 1). The caller takes part, and waits only for tasks that somebody has
// begun: threads that are all busy (perhaps waiting here themselves) cannot hold it up. The first
// exception of a task, or of a look for signals, is the caller's, and what nobody has begun then is left undone.
template <typename Task>
void share(ffi::ThreadPool& pool, int64_t count, const Task& task) {
  const int64_t helpers = std::min(pool.num_threads(), count) - 1;
  if (helpers < 1) {
    for (int64_t i = 0; i < count; i++) Watch::look(), task(i);
    return;
  }
  const auto shared = std::make_shared<Shared<Task>>(count, task);
  const auto help = [](void* tasks) {
    static_cast<Shared<Task>*>(tasks)->work(true);
    Awake::worked();
  };
  Crew::Job job{help, shared.get(), {helpers}, own_core()};
  Crew& crew = Crew::of_process();
  const bool offered = crew.offer(job, pool.num_threads() - 1);
  if (!offered)  // they help somebody else
    for (int64_t i = 0; i < helpers; i++) pool.Schedule([shared] {
      shared->work(true);
      Awake::worked();
    });
  shared->work(false);
  wait_until([&] { return shared->done.load(std::memory_order_acquire) >= count; }, [&] { shared->look(); });
  if (offered) crew.close();
  if (shared->error) std::rethrow_exception(shared->error);
}

inline int64_t parts(int64_t all, int64_t unit, int64_t wanted) {  // how many parts of whole units
  return std::clamp<int64_t>((all + unit - 1) / unit, 1, wanted);
}

struct Range { int64_t from, to; };

inline Range part(int64_t i, int64_t count, int64_t all, int64_t unit) {
  const int64_t units = (all + unit - 1) / unit;
  return {units * i / count * unit, std::min(all, units * (i + 1) / count * unit)};
}

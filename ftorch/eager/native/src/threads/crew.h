// Threads that wait for the next kernel by looking for it, a while.
//
// The threads of XLA's pool sleep between most kernels: to wake one takes longer than a short kernel, and a pool that
// has another asleep wakes that as well. These look for work for some time after the last, and let whoever wants their
// core have it.
#pragma once

#include <pthread.h>
#include <sched.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

inline void pause_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits actively: for what another thread is about to have done. Now and then it does something else.
template <typename Done, typename Meanwhile>
void wait_until(const Done& done, const Meanwhile& meanwhile) {
  for (int i = 1; !done(); i++)
    if (i % 64) pause_a_moment();
    else sched_yield(), meanwhile();
}
template <typename Done>
void wait_until(const Done& done) {
  wait_until(done, [] {});
}

// The core that runs this thread, -1 where that is not known.
inline int own_core() {
#ifdef __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}

// The package's own threads: nobody else's are touched. One that is woken often gets the core of whom it is to help: it
// takes its place there for as long as the work lasts, or waits in the core's queue until the scheduler looks again
// (4 ms). Here it is sent to another, if it may run there: where it may run is asked each time, and is as before after.
class Helpers {
 public:
  // Said by an own thread when it begins, with the core of whom it helps.
  static void begin(int core) {
#ifdef __linux__
    static thread_local const pid_t self = add();
    if (core >= 0 && core == own_core()) {
      std::lock_guard<std::mutex> lock(mutex());
      leave(self, core);
    }
#endif
  }

  // Said by who works alone although others should have begun.
  static void send_off() {
#ifdef __linux__
    const int core = own_core();
    std::lock_guard<std::mutex> lock(mutex());
    if (process() != getpid()) return;  // a child has no threads
    for (const pid_t thread : all()) leave(thread, core);
#endif
  }

#ifdef __linux__
 private:
  // Under the lock: between the two calls that set it a thread's mask is less than what it may have.
  static void leave(pid_t thread, int core) {
    cpu_set_t allowed;
    if (sched_getaffinity(thread, sizeof(allowed), &allowed)) return;
    cpu_set_t others = allowed;
    CPU_CLR(core, &others);
    if (CPU_COUNT(&others) && !sched_setaffinity(thread, sizeof(others), &others))
      sched_setaffinity(thread, sizeof(allowed), &allowed);
  }

  static std::mutex& mutex() {
    static std::mutex& mutex = *new std::mutex;
    return mutex;
  }

  static std::vector<pid_t>& all() {
    static auto& all = *new std::vector<pid_t>;
    return all;
  }

  static pid_t& process() {
    static pid_t process = getpid();
    return process;
  }

  static pid_t add() {
    const pid_t self = syscall(SYS_gettid);
    std::lock_guard<std::mutex> lock(mutex());
    process();
    all().push_back(self);
    return self;
  }
#endif
};

// Whether this is the process's first thread, which runs Python.
inline bool is_main_thread() {
#ifdef __linux__
  static thread_local const bool is_main = getpid() == static_cast<pid_t>(syscall(SYS_gettid));
  return is_main;
#else
  return false;
#endif
}

class Crew {
 public:
  // What helpers of the job do, each once: work(what).
  struct Job {
    void (*work)(void*);
    void* what;
    std::atomic<int64_t> helpers;
    int core;  // of whom it is for
  };

  // Whether its threads look for more work after that of this thread: the main one. A program that runs there leaves
  // the other cores idle, where one in a thread of XLA's runs beside Python, which wants the core that a thread that
  // looks for work would hold: there they sleep at once.
  static bool looks_here() { return is_main_thread() || directly(); }

  // How many calls without XLA this thread is in: it calls kernels by itself.
  static int& directly() {
    static thread_local int calls = 0;
    return calls;
  }

  // The process's. It is never destroyed: its threads look at it to the end.
  static Crew& of_process() {
    static Crew& crew = *new Crew;
    return crew;
  }

  // Offers a job to at most `threads` threads until `close`; false: somebody else's is under way.
  bool offer(Job& job, int64_t threads) {
    if (forked.load(std::memory_order_relaxed) || busy.exchange(true)) return false;
    for (; count < threads; count++) std::thread([this] { serve(); }).detach();
    looks = looks_here();
    current = &job;
    number++;
    if (asleep > 0) {
      std::lock_guard<std::mutex> lock(mutex);
      job.helpers >= asleep ? more.notify_all() : wake(job.helpers);
    }
    return true;
  }

  // Returns when nobody is at the job any more.
  void close() {
    current = nullptr;
    wait_until([this] { return inside == 0; });
    busy = false;
  }

 private:
  static constexpr std::chrono::microseconds LOOKS{100}, GLANCES{8};
  static constexpr int PAUSES = 32;

  std::atomic<Job*> current{nullptr};
  alignas(64) std::atomic<int64_t> number{0};  // of jobs offered
  alignas(64) std::atomic<int64_t> inside{0};  // threads that may hold the job
  std::atomic<int64_t> asleep{0};
  std::atomic<bool> busy{false}, looks{true};
  std::mutex mutex;
  std::condition_variable more;
  int64_t count = 0;
  static inline std::atomic<bool> forked{false};  // a child has no threads

  Crew() {
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
  }

  void wake(int64_t threads) {
    for (; threads > 0; threads--) more.notify_one();
  }

  void serve() {
    for (int64_t seen = 0;;) {
      seen = next(seen);
      inside++;
      if (Job* job = current)
        if (job->helpers.fetch_sub(1) > 0) {
          Helpers::begin(job->core);
          job->work(job->what);
        }
      inside--;
    }
  }

  // The number of a job after `seen`.
  int64_t next(int64_t seen) {
    const auto end = std::chrono::steady_clock::now() + (looks ? LOOKS : GLANCES);
    do {
      for (int i = 0; i < PAUSES; i++, pause_a_moment())
        if (const int64_t now = number.load(std::memory_order_acquire); now != seen) return now;
      sched_yield();
    } while (std::chrono::steady_clock::now() < end);
    std::unique_lock<std::mutex> lock(mutex);
    asleep++;
    more.wait(lock, [&] { return number != seen; });
    asleep--;
    return number;
  }
};

// Signals that come while kernels run: the handler, in Python, is run between two tasks, and a kernel whose handler raises is
// given up.
#pragma once

#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <stdexcept>

// Why a kernel ends: what the handler raised is Python's error.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "a kernel of ftorch was interrupted"; }
};

// In a child that a handler made while a kernel ran: the threads that helped stayed with the parent.
struct Forked : std::runtime_error {
  Forked() : std::runtime_error("the handler of a signal forked the process while a kernel of ftorch ran in it") {}
};

// Whether this thread may be the process's first: in a child the one that forked it.
inline bool is_first_thread() {
#ifdef __linux__
  return getpid() == static_cast<pid_t>(syscall(SYS_gettid));
#else
  return true;
#endif
}

// Says, while it lives, how the calling thread looks for signals.
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  ~Watch() {
    if (looks) own() = before;
  }

  // Now and then, in between tasks, and in long ones. Also ends a task that another thread does for one that was given up.
  static void look() {
    if (given_up() && given_up()->load(std::memory_order_relaxed)) throw Interrupted();
    Watch* watch = own();
    if (!watch || Clock::now() < watch->next) return;
    const pid_t process = getpid();
    own() = nullptr;  // kernels that the handler calls look by themselves
    const bool ends = watch->looks(watch->what);
    own() = watch;
    watch->next = ends ? Clock::time_point::max() : Clock::now() + BETWEEN;
    if (getpid() != process) throw Forked();
    if (ends) throw Interrupted();
  }

  // Of a thread that helps: whether what it helps with was given up. Null: it does not help.
  static const std::atomic<bool>*& given_up() {
    static thread_local const std::atomic<bool>* flag = nullptr;
    return flag;
  }

 protected:
  // look(what): whether to end.
  void begin(bool (*look)(void*), void* what) {
    looks = look, this->what = what, before = own(), next = Clock::now() + BETWEEN;
    own() = this;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds BETWEEN{50};
  bool (*looks)(void*) = nullptr;
  void* what = nullptr;
  Watch* before = nullptr;
  Clock::time_point next;

  static Watch*& own() {
    static thread_local Watch* watch = nullptr;
    return watch;
  }
};

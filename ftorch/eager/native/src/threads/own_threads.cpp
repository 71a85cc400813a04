#include "threads/own_threads.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "threads/crew.h"

// An error of a handler that Python called.
struct XLA_FFI_Error {
  std::string message;
};

namespace {

std::atomic<int64_t> wanted{0};  // threads; 0: as many as there are cores
std::atomic<bool> is_child{false};

// Threads that sleep until there is a task: for callers that find the crew at work for another.
class Sleepers {
 public:
  static Sleepers& of_process() {
    static Sleepers& sleepers = *new Sleepers;
    return sleepers;
  }

  void add(XLA_FFI_Task* task, void* data) {
    std::lock_guard<std::mutex> lock(mutex);
    tasks.push_back({task, data});
    if (idle) more.notify_one();
    else if (threads + 1 < count_own_threads()) threads++, std::thread([this] { serve(); }).detach();
  }

 private:
  struct Task { XLA_FFI_Task* run; void* data; };
  std::mutex mutex;
  std::condition_variable more;
  std::deque<Task> tasks;
  int64_t threads = 0, idle = 0;

  void serve() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      idle++;
      more.wait(lock, [this] { return !tasks.empty(); });
      idle--;
      const Task task = tasks.front();
      tasks.pop_front();
      lock.unlock();
      task.run(task.data);
      lock.lock();
    }
  }
};

int64_t usable_cores() {
#ifdef __linux__
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

// The message of an error: of its own in the interface until version 0.4, one of its details since.
template <typename Api>
auto set_message(Api& api, int) -> decltype((void)api.XLA_FFI_Error_GetDetails) {
  api.XLA_FFI_Error_GetDetails = [](auto* args) {
    args->message = args->error->message.c_str();
    args->errc = XLA_FFI_Error_Code_INTERNAL;
  };
}
template <typename Api>
auto set_message(Api& api, long) -> decltype((void)api.XLA_FFI_Error_GetMessage) {
  api.XLA_FFI_Error_GetMessage = [](auto* args) { args->message = args->error->message.c_str(); };
}

XLA_FFI_Api make_api() {
  static const bool watches = [] {
    pthread_atfork(nullptr, nullptr, [] { is_child = true; });
    return true;
  }();
  (void)watches;
  XLA_FFI_Api api{};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  api.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) { return new XLA_FFI_Error{args->message}; };
  set_message(api, 0);
  api.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* args) { delete args->error; };
  api.XLA_FFI_ThreadPool_Schedule = [](XLA_FFI_ThreadPool_Schedule_Args* args) -> XLA_FFI_Error* {
    Sleepers::of_process().add(args->task, args->data);
    return nullptr;
  };
  api.XLA_FFI_ThreadPool_NumThreads = [](XLA_FFI_ThreadPool_NumThreads_Args* args) -> XLA_FFI_Error* {
    *args->num_threads = count_own_threads();
    return nullptr;
  };
  return api;
}

}  // namespace

const XLA_FFI_Api* own_api() {
  static const XLA_FFI_Api api = make_api();
  return &api;
}

std::string take_message(XLA_FFI_Error* error) {
  const std::string message = std::move(error->message);
  delete error;
  return message;
}

ffi::ThreadPool own_threads() {
  static ffi::DiagnosticEngine& diagnostic = *new ffi::DiagnosticEngine;
  return *ffi::CtxDecoding<ffi::ThreadPool>::Decode(own_api(), nullptr, diagnostic);
}

void set_own_threads(int64_t count) { wanted = count; }

int64_t count_own_threads() {
  static const int64_t cores = usable_cores();
  if (is_child.load(std::memory_order_relaxed)) return 1;  // the others stayed in the parent
  const int64_t count = wanted.load(std::memory_order_relaxed);
  return count > 0 ? count : cores;
}

DirectCall::DirectCall() { Crew::directly()++; }
DirectCall::~DirectCall() { Crew::directly()--; }

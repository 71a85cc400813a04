// Threads for kernels that Python calls without a program of XLA's, which has a pool of its own.
#pragma once

#include <string>

#include "calls.h"

// What XLA gives handlers, as far as kernels ask for it: threads and errors.
const XLA_FFI_Api* own_api();
// The text of an error that a handler gave which was called with that interface; the error is gone then.
std::string take_message(XLA_FFI_Error* error);

// The package's own threads, as the pool that kernels share work with.
ffi::ThreadPool own_threads();

// How many threads a call may have, with the caller's.
void set_own_threads(int64_t count);
int64_t count_own_threads();

// While there is one, the calling thread's kernels are helped by those that look for work (`crew.h`), whichever thread it is.
struct DirectCall {
  DirectCall();
  ~DirectCall();
};

// The memory of a storage that is written to, and where the elements of tensors lie in such; see writes.h.
#pragma once

#include "recording/recording.h"
#include "writes/regions.h"

namespace recording {

using regions::Region;

constexpr npy_intp MOST_ELEMENTS = 1 << 18;  // of more, other threads may run meanwhile: Python does it

// Whether a geometry's elements are a root's own, of a dtype that NumPy has, on the CPU.
bool lie_simply(PyObject* geometry, PyObject* root);

// The elements that a shape, strides and an offset, in elements, say of an array; false if they are not all in it.
bool find(PyArrayObject* array, PyObject* shape, PyObject* stride, npy_intp offset, Region& region);
bool find(PyArrayObject* array, PyObject* tensor, Region& region);

// Runs what a storage waits for. 1: its value is there; 0: it cannot be had; -1 with an error.
int settle(PyObject* storage);

// The array that is written to (borrowed): memory that is shared with the user, or that nothing else holds, once what this
// thread has recorded has let go of it. 1, 0 or -1 as in `settle`.
int take(PyObject* storage, PyArrayObject*& array);

// Whether there is such an array now.
bool has_own_array(PyObject* storage);

// Counts a write; false with an error, before anything is written.
bool count(PyObject* storage);

// An array of the user's is the value from here on.
void forget_copy(PyObject* storage);

// Whether the calling thread may write to a storage's memory now.
bool may_write(PyObject* storage);

// A tensor that is read.
struct Source {
  Held array;
  Region region;

  // Of a tensor of another storage than `target`; 1, 0 or -1 as in `settle`.
  int read(PyObject* tensor, PyObject* target);
};

// 1, 0 or -1 as `write_now`.
int fill_now(PyObject* storage, PyObject* shape, PyObject* stride, npy_intp offset, PyObject* number);
int copy_now(PyObject* storage, PyObject* shape, PyObject* stride, npy_intp offset, Source& source);

void name_target_memory();

}  // namespace recording

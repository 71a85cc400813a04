// Writes that are done at once, in a storage's own memory: see ftorch/eager/runtime/inplace_writes.py.
#pragma once

#include "recording/recording.h"

namespace recording {

// Does what an in-place call says if its target's memory may be written to and there is a loop for it here.
// 1: done; 0: it was not, and nothing has been changed; -1 with an error.
int write_now(PyObject* plan, PyObject* const* tensors, int count, PyObject* const* numbers, int scalars);

// x[.., index, ..] = or += value for index tensors along dimensions (rising) of what a shape, strides and an offset say of a
// storage; `value`: a plain tensor or a number. Results as of `write_now`.
int put_now(PyObject* storage, PyObject* shape, PyObject* stride, Py_ssize_t offset, PyObject* const* tensors, const int* dims, int count,
            PyObject* value, bool adds);

// Whether a storage's values are written to at once, and not by a recorded step.
bool is_written_at_once(PyObject* storage);

bool is_empty(PyObject* name);  // whether a list of the calling thread's modes is
bool overlaps_itself(PyObject* geometry);
extern PyObject* name_differentiating;

PyObject* item_of(PyObject*, PyObject* const* arguments, Py_ssize_t count);
PyObject* write_item(PyObject*, PyObject* const* arguments, Py_ssize_t count);

}  // namespace recording

// Arrays of NumPy's for functions that Python calls, and memory for results.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL ftorch_numpy
#ifndef IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "threads/interrupts.h"

// A reference that is given back.
struct Owned {
  PyObject* object;
  explicit Owned(PyObject* object = nullptr) : object(object) {}
  Owned(Owned&& other) noexcept : object(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Owned() { Py_XDECREF(object); }
  Owned(const Owned&) = delete;
  PyObject* release() { return std::exchange(object, nullptr); }
  explicit operator bool() const { return object; }
};

// Thrown where Python's error is set.
struct PythonError {};

// use(), its exceptions made Python's; null then.
template <typename Use>
PyObject* with_errors(const Use& use) {
  try {
    return use();
  } catch (const PythonError&) {
  } catch (const Interrupted&) {  // what the handler raised
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

[[noreturn]] inline void fail(PyObject* type, const char* text) {
  PyErr_SetString(type, text);
  throw PythonError();
}

inline PyArrayObject* array_of(PyObject* object) {
  if (!PyArray_Check(object)) fail(PyExc_TypeError, "expected an array of NumPy's");
  return reinterpret_cast<PyArrayObject*>(object);
}

inline int64_t integer_of(PyObject* object) {
  const int64_t value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

// A list or tuple's elements, while it lives.
struct Items {
  PyObject** items;
  int64_t count;
  explicit Items(PyObject* object) {
    if (!PyTuple_Check(object) && !PyList_Check(object)) fail(PyExc_TypeError, "expected a list or tuple");
    items = PySequence_Fast_ITEMS(object), count = PySequence_Fast_GET_SIZE(object);
  }
  PyObject* operator[](int64_t i) const { return items[i]; }
};

// A new dense array; its memory is aligned to 64 bytes, as JAX wants what it takes without a copy, and comes from memory
// that arrays before gave back. Bytes up to the next multiple of 64 behind its end belong to it.
Owned new_array(int rank, const npy_intp* shape, int type_number);

bool add_memory_type(PyObject* module);
extern PyMethodDef memory_methods[];

// Raises what another thread has sent to this one (`PyThreadState_SetAsyncExc`): Python looks for it where a function begins.
bool was_sent_an_exception();

// While kernels run without Python's lock, if that is worth it. Where handlers of signals may run, they do, and may `end` a
// kernel, as exceptions of other threads do: not one that writes to what others see.
struct Unlocked : Watch {
  PyThreadState* state;
  explicit Unlocked(bool worth, bool may_end = true) : state(worth ? PyEval_SaveThread() : nullptr) {
    if (state && may_end) begin(look, this);
  }
  ~Unlocked() { if (state) PyEval_RestoreThread(state); }

 private:
  unsigned looks = 0;
  static bool look(void* own) {
    Unlocked* self = static_cast<Unlocked*>(own);
    const bool handles = is_first_thread();  // Python runs handlers in that one
    if (!handles && ++self->looks % 4) return false;  // it may have to wait for the lock
    PyEval_RestoreThread(self->state);
    const bool raised = (handles && PyErr_CheckSignals() < 0) || was_sent_an_exception();
    self->state = PyEval_SaveThread();
    return raised;
  }
};

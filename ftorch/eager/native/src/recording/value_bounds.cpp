// Checks of values that are bounds of integers: `Checks.bounds` of `ftorch/eager/runtime/value_checks.py`.
#include "objects/arrays.h"
#include "recording/recording.h"

namespace recording {

namespace {

constexpr npy_intp MOST_ELEMENTS = 1024;  // of more Python remembers that they have passed

template <typename T>
bool all_within(const T* values, npy_intp count, long long lowest, long long bound) {
  bool within = true;
  for (npy_intp i = 0; i < count; i++) within &= values[i] >= lowest && values[i] < bound;
  return within;
}

bool is_tensor_within(PyObject* tensor, long long lowest, long long bound) {
  PyObject* storage = at(tensor, TENSOR_STORAGE);
  if (at(storage, STORAGE_TRACE) != Py_None || at(tensor, TENSOR_GEOMETRY) != at(storage, STORAGE_ROOT)) return false;
  PyObject* value = at(storage, STORAGE_ARRAY);
  if (!value || !PyArray_CheckExact(value)) return false;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(value);
  if (!PyArray_ISCARRAY_RO(array) || PyArray_SIZE(array) > MOST_ELEMENTS) return false;
  switch (PyArray_TYPE(array)) {
    case NPY_LONG: return all_within(static_cast<npy_long*>(PyArray_DATA(array)), PyArray_SIZE(array), lowest, bound);
    case NPY_LONGLONG: return all_within(static_cast<npy_longlong*>(PyArray_DATA(array)), PyArray_SIZE(array), lowest, bound);
    case NPY_INT: return all_within(static_cast<npy_int*>(PyArray_DATA(array)), PyArray_SIZE(array), lowest, bound);
  }
  return false;
}

bool is_number_within(PyObject* number, long long lowest, long long bound) {
  if (PyFloat_CheckExact(number)) return true;  // bounds are for integers
  if (!PyLong_CheckExact(number)) return false;
  int overflow;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  return !overflow && value >= lowest && value < bound;
}

// A bound: a number, or the size of an operand's dimension, or its negative. False: it is none of an operand that there is.
bool read_bound(PyObject* bound, PyObject* const* tensors, int count, long long& value) {
  if (!PyTuple_CheckExact(bound)) {
    value = PyLong_AsLongLong(bound);
    return true;
  }
  const long operand = PyLong_AsLong(PyTuple_GET_ITEM(bound, 0)), dim = PyLong_AsLong(PyTuple_GET_ITEM(bound, 1));
  if (operand < 0 || operand >= count) return false;
  PyObject* shape = at(at(tensors[operand], TENSOR_GEOMETRY), GEOMETRY_SHAPE);
  if (dim < 0 || dim >= PyTuple_GET_SIZE(shape)) return false;
  value = PyLong_AsLongLong(PyTuple_GET_ITEM(bound, 2)) * PyLong_AsLongLong(PyTuple_GET_ITEM(shape, dim));
  return true;
}

}  // namespace

bool are_within(PyObject* checks, PyObject* const* tensors, int count, PyObject* const* numbers, int scalars) {
  PyObject* bounds = at(checks, CHECKS_BOUNDS);
  if (!bounds || !PyTuple_CheckExact(bounds)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bounds); i++) {
    PyObject* one = PyTuple_GET_ITEM(bounds, i);
    const long place = PyLong_AsLong(PyTuple_GET_ITEM(one, 0));
    long long lowest, bound;
    if (!read_bound(PyTuple_GET_ITEM(one, 1), tensors, count, lowest) || !read_bound(PyTuple_GET_ITEM(one, 2), tensors, count, bound))
      return false;
    if (place < 0 ? -1 - place >= scalars || !is_number_within(numbers[-1 - place], lowest, bound)
                  : place >= count || !is_tensor_within(tensors[place], lowest, bound)) return false;
  }
  return true;
}

}  // namespace recording

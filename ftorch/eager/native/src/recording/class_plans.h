// What plans of size classes are made of, for class_plans.cpp and result_geometries.cpp.
#pragma once

#include "recording/recording.h"

namespace recording {

struct Classes {
  PyTypeObject *model, *size, *geometry, *dtype;
  PyObject *symbols, *interned, *sweep_at;                       // of size_classes.py; of geometry.py
  PyObject *make_geometry, *result_geometries, *remember, *append;  // functions in Python; of the queue of plans
  long exact_below, unchecked, at_once;                              // of size_classes.py, class_plans.py, plan.py
};
extern Classes classes;

// A new tuple in which nothing can refer to itself is not for the collector of cycles, whose time grows with what it knows.
inline PyObject* leaf(PyObject* tuple) {
  if (tuple) PyObject_GC_UnTrack(tuple);
  return tuple;
}

PyObject* contiguous_geometry(PyObject* shape, PyObject* dtype);
bool has_new_stride(PyObject* g);
bool is_same_shape(PyObject* a, PyObject* b);
PyObject* geometries_of(PyObject* model, PyObject* instance, PyObject* inputs, PyObject* fixed);

}  // namespace recording

// Exits of contexts that an exception from outside (Ctrl-C) does not skip.
//
// Python looks for signals when it enters a function that is written in Python: so an `__exit__` may be over before it
// has begun. A function in C is not interrupted there; it calls the one in Python again.
#include "module.h"

namespace {

constexpr int TIMES = 8;  // interrupts in a row that an exit outlasts

PyObject* repeat(PyObject* function, PyObject* const* args, Py_ssize_t count) {
  PyObject* result = PyObject_Vectorcall(function, args, count, nullptr);
  for (int i = 0; !result && i < TIMES; i++) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyObject* again = PyObject_Vectorcall(function, args, count, nullptr)) {
      Py_DECREF(again);
      PyErr_Restore(type, value, trace);
      return nullptr;
    }
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  }
  return result;
}

PyMethodDef repeat_definition = {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(repeat)), METH_FASTCALL,
                                 "Leaves the context."};

PyObject* repeated(PyObject*, PyObject* function) {
  PyObject* call = PyCFunction_New(&repeat_definition, function);
  if (!call) return nullptr;
  PyObject* method = PyInstanceMethod_New(call);
  Py_DECREF(call);
  return method;
}

}  // namespace

PyMethodDef context_methods[] = {
    {"repeated", repeated, METH_O, "A method that calls a function once more if an exception comes in the middle."},
    {nullptr, nullptr, 0, nullptr}};

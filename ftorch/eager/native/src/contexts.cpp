// Exits of contexts that an exception from outside (Ctrl-C) does not skip.
//
// Python looks for signals when it enters a function that is written in Python: so an `__exit__` may be over before it
// has begun. A function in C is not interrupted there; it calls the one in Python again.
//
// What Python's collector calls when it begins and ends is in C as a whole: an exception that came there would be reported and
// dropped, and one Ctrl-C in a hundred comes so.
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

PyObject* call_alone(PyObject* function, PyObject* const*, Py_ssize_t) { return PyObject_CallNoArgs(function); }

PyMethodDef alone_definition = {"collected", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_alone)), METH_FASTCALL,
                                "Calls a function without arguments."};

PyObject* alone(PyObject*, PyObject* function) { return PyCFunction_New(&alone_definition, function); }

unsigned long collector = 0;  // the thread that collects garbage, or 0

PyObject* note_collection(PyObject*, PyObject* const* args, Py_ssize_t count) {
  bool begins = count && PyUnicode_Check(args[0]) && !PyUnicode_CompareWithASCIIString(args[0], "start");
  collector = begins ? PyThread_get_thread_ident() : 0;
  Py_RETURN_NONE;
}

PyObject* collects(PyObject*, PyObject*) {
  return PyBool_FromLong(collector && collector == PyThread_get_thread_ident());
}

}  // namespace

PyMethodDef context_methods[] = {
    {"repeated", repeated, METH_O, "A method that calls a function once more if an exception comes in the middle."},
    {"alone", alone, METH_O, "A function that takes anything and calls one without arguments."},
    {"note_collection", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(note_collection)), METH_FASTCALL,
     "Is told by Python's collector that it begins or ends."},
    {"collects", collects, METH_NOARGS, "Whether this thread collects garbage now."},
    {nullptr, nullptr, 0, nullptr}};

// The value of a tensor of one element, see `item` of `ftorch/eager/tensor_api/conversions.py`.
#include "objects/arrays.h"
#include "recording/recording.h"

namespace recording {

namespace {

PyObject *name_checks, *name_settle;

// Whether checks of values wait for somebody to look, or cannot be asked for: 1, 0, or -1 with an error.
int is_waiting() {
  Held checks(PyObject_GetAttr(known.postponed, name_checks));
  return checks ? !PyList_CheckExact(checks.object) || PyList_GET_SIZE(checks.object) : -1;
}

}  // namespace

PyObject* number_of(PyObject*, PyObject* tensor) {
  if (!zero || !is_plain(Py_TYPE(tensor)) || PyList_GET_ITEM(known.special, 0) != zero ||
      PyList_GET_ITEM(known.on_look, 0) != Py_None) Py_RETURN_NONE;
  if (!name_checks) {
    name_checks = PyUnicode_InternFromString("checks");
    name_settle = PyUnicode_InternFromString("settle");
  }
  PyObject *geometry = at(tensor, TENSOR_GEOMETRY), *storage = at(tensor, TENSOR_STORAGE);
  if (!geometry || !storage) Py_RETURN_NONE;
  PyObject* root = at(storage, STORAGE_ROOT);
  if (!is_number(at(geometry, GEOMETRY_NUMEL), 1) || at(geometry, GEOMETRY_BITS) != zero ||
      at(geometry, GEOMETRY_DTYPE) != at(root, GEOMETRY_DTYPE) || at(geometry, GEOMETRY_DEVICE) != known.cpu ||
      at(root, GEOMETRY_CONTIGUOUS) != Py_True) Py_RETURN_NONE;
  int is_number_of_numpy = PySet_Contains(known.numbers, at(geometry, GEOMETRY_DTYPE));
  int waiting = is_number_of_numpy == 1 ? is_waiting() : 1;
  if (is_number_of_numpy < 0 || waiting < 0) return nullptr;
  if (waiting) Py_RETURN_NONE;
  if (at(storage, STORAGE_TRACE) != Py_None) {
    if (Py_TYPE(at(storage, STORAGE_TRACE)) != known.trace) Py_RETURN_NONE;
    Held kept(storage);
    Py_INCREF(storage);
    const int ran = run_short(at(storage, STORAGE_TRACE));
    Held done(ran ? nullptr : PyObject_CallMethodNoArgs(storage, name_settle));
    if (ran < 0 || (!ran && !done)) return nullptr;
    if (at(tensor, TENSOR_STORAGE) != storage || at(storage, STORAGE_TRACE) != Py_None) Py_RETURN_NONE;
  }
  Held held(at(storage, STORAGE_ARRAY));
  Py_XINCREF(held.object);
  if (!held || !PyArray_CheckExact(held.object)) Py_RETURN_NONE;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(held.object);
  Py_ssize_t offset = PyLong_AsSsize_t(at(tensor, TENSOR_OFFSET));
  if (!PyArray_IS_C_CONTIGUOUS(array) || PyArray_TYPE(array) >= NPY_USERDEF ||
      (!PyArray_ISNUMBER(array) && !PyArray_ISBOOL(array)) || offset < 0 ||
      offset >= PyArray_SIZE(array)) Py_RETURN_NONE;
  return PyArray_GETITEM(array, PyArray_BYTES(array) + offset * PyArray_ITEMSIZE(array));
}

// live(trace, owners): the slots of a trace whose values somebody can still ask for, and their storages.
PyObject* live(PyObject*, PyObject* arguments) {
  PyObject *trace, *owners;
  if (!PyArg_ParseTuple(arguments, "OO!", &trace, &PyList_Type, &owners)) return nullptr;
  Held slots(PyList_New(0)), storages(PyList_New(0));
  if (!slots || !storages) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(owners); i++) {
    PyObject* storage = PyList_GET_ITEM(owners, i);
    if (Py_REFCNT(storage) < 2 || Py_TYPE(storage) != known.storage || at(storage, STORAGE_TRACE) != trace) continue;
    PyObject* slot = at(storage, STORAGE_SLOT);
    if (PyLong_AsSsize_t(slot) != i) continue;
    if (PyList_Append(slots.object, slot) < 0 || PyList_Append(storages.object, storage) < 0) return nullptr;
  }
  return PyTuple_Pack(2, slots.object, storages.object);
}

}  // namespace recording

// The tape's node of a recorded call, see `_record` of `ftorch/eager/autograd/tape.py`.
#include "recording/recording.h"

namespace recording {

namespace {

// The node at the end of the graph at a leaf, new: see `accumulator` in Python.
PyObject* new_accumulator(PyObject* t, PyObject* meta) {
  PyTypeObject* cls = known.accumulate;
  if (meta == Py_None || at(meta, EXTRAS_HOOKS) != Py_None) return PyObject_CallOneArg(known.accumulator, t);
  Held made(cls->tp_alloc(cls, 0)), nothing(PyTuple_New(0));
  if (!made || !nothing) return nullptr;
  for (int slot = NODE_TENSOR_HOOKS; slot <= NODE_TRACE; slot++) put(made.object, static_cast<Slot>(slot), Py_None);
  put(made.object, NODE_EDGES, nothing.object);
  put(made.object, NODE_SEQUENCE, known.accumulate_sequence);
  put(made.object, ACCUMULATE_VARIABLE, t);
  PyObject* reference = PyWeakref_NewRef(made.object, nullptr);
  if (!reference) return nullptr;
  replace(meta, EXTRAS_ACCUMULATOR, reference);
  return made.release();
}

// (node, output number) of a tensor that requires grad, new.
PyObject* edge_of(PyObject* t) {
  PyObject* fn = at(t, TENSOR_GRAD_FN);
  if (fn != Py_None) return PyTuple_Pack(2, fn, at(t, TENSOR_OUTPUT_NR));
  PyObject *meta = at(t, TENSOR_META), *found = nullptr;
  if (meta != Py_None) {
    PyObject* reference = at(meta, EXTRAS_ACCUMULATOR);
    if (PyWeakref_CheckRefExact(reference)) found = PyWeakref_GET_OBJECT(reference);
  }
  if (found && found != Py_None) return PyTuple_Pack(2, found, zero);
  Held made(new_accumulator(t, meta));
  return made ? PyTuple_Pack(2, made.object, zero) : nullptr;
}

// What a node keeps of a tensor, new. Null without an error: `save` in Python knows.
PyObject* kept_of(PyObject* t) {
  PyObject *storage = at(t, TENSOR_STORAGE), *version = at(storage, STORAGE_VERSION);
  if (at(storage, STORAGE_ERROR) != Py_None || PyLong_AsLongLong(version) < 0) return nullptr;
  PyObject *meta = at(t, TENSOR_META), *counter = meta == Py_None ? Py_None : at(meta, EXTRAS_COUNTER);
  if (counter != Py_None)
    return PyTuple_Pack(5, storage, at(t, TENSOR_GEOMETRY), at(t, TENSOR_OFFSET), at(counter, COUNTER_VERSION), counter);
  return PyTuple_Pack(4, storage, at(t, TENSOR_GEOMETRY), at(t, TENSOR_OFFSET), version);
}

}  // namespace

bool Node::prepare(PyObject* plan, PyObject* const* tensors, int count, PyObject* const* numbers, int scalars) {
  Held mask(PyTuple_New(count));
  if (!mask) return false;
  for (int i = 0; i < count; i++) {
    PyObject* flag = at(tensors[i], TENSOR_REQUIRES_GRAD);
    Py_INCREF(flag);
    PyTuple_SET_ITEM(mask.object, i, flag);
  }
  backward.object = Py_XNewRef(PyDict_GetItemWithError(at(plan, PLAN_BACKWARDS), mask.object));
  if (!backward && !PyErr_Occurred()) backward.object = backward_of(plan, mask.object);
  if (!backward) return false;
  PyObject *needed = at(backward.object, BACKWARD_MASK), *wanted = at(backward.object, BACKWARD_SAVED);
  PyObject* cls = at(backward.object, BACKWARD_NODE_CLASS);
  differentiable = at(backward.object, BACKWARD_DIFFERENTIABLE);
  if (!PyTuple_CheckExact(needed) || PyTuple_GET_SIZE(needed) != count || !PyList_CheckExact(wanted) || !PyType_Check(cls) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), known.node) || !PyTuple_CheckExact(differentiable)) return false;
  Py_ssize_t size = PyList_GET_SIZE(wanted);
  saved.object = size ? PyList_New(size) : PyTuple_New(0);
  if (!saved) return false;
  for (Py_ssize_t k = 0; k < size; k++) {
    Py_ssize_t i = PyLong_AsSsize_t(PyList_GET_ITEM(wanted, k));
    PyObject* item = Py_None;
    if (i >= count) return false;
    if (i >= 0) {
      if (!(item = kept_of(tensors[i]))) return false;
    } else {
      Py_INCREF(item);
    }
    PyList_SET_ITEM(saved.object, k, item);
  }
  Held edges(PyTuple_New(count)), given(PyList_New(scalars));
  if (!edges || !given) return false;
  for (int i = 0; i < count; i++) {
    PyObject* edge = Py_None;
    if (PyTuple_GET_ITEM(needed, i) == Py_True) {
      if (!(edge = edge_of(tensors[i]))) return false;
    } else {
      Py_INCREF(edge);
    }
    PyTuple_SET_ITEM(edges.object, i, edge);
  }
  for (int i = 0; i < scalars; i++) {
    Py_INCREF(numbers[i]);
    PyList_SET_ITEM(given.object, i, numbers[i]);
  }
  Held sequence(PyIter_Next(known.sequence));
  if (!sequence) return false;
  PyObject* made = reinterpret_cast<PyTypeObject*>(cls)->tp_alloc(reinterpret_cast<PyTypeObject*>(cls), 0);
  if (!made) return false;
  node.object = made;
  for (int slot = NODE_TENSOR_HOOKS; slot <= NODE_TRACE; slot++) put(made, static_cast<Slot>(slot), Py_None);
  put(made, NODE_SEQUENCE, sequence.object);
  put(made, NODE_EDGES, edges.object);
  put(made, NODE_BACKWARD, backward.object);
  put(made, NODE_SCALARS, given.object);
  put(made, NODE_SAVED, saved.object);
  return true;
}

bool Node::finish(PyObject* const* storages, int made) {
  PyObject* wanted = at(backward.object, BACKWARD_SAVED);
  if (PyTuple_GET_SIZE(differentiable) != made || (PyList_GET_SIZE(wanted) && !PyList_CheckExact(saved.object))) return false;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(wanted); k++) {
    Py_ssize_t i = -1 - PyLong_AsSsize_t(PyList_GET_ITEM(wanted, k));
    if (i < 0) continue;
    if (i >= made || PyLong_AsLongLong(at(storages[i], STORAGE_VERSION)) < 0) return false;
    PyObject* item = PyTuple_Pack(4, storages[i], at(storages[i], STORAGE_ROOT), zero, at(storages[i], STORAGE_VERSION));
    if (!item) return false;
    PyList_SetItem(saved.object, k, item);
  }
  return true;
}

bool Node::attach(PyObject* tensor, int number) {
  if (PyTuple_GET_ITEM(differentiable, number) != Py_True) return true;
  PyObject* nr = PyLong_FromLong(number);
  if (!nr) return false;
  Py_INCREF(Py_True);
  Py_INCREF(node.object);
  replace(tensor, TENSOR_REQUIRES_GRAD, Py_True);
  replace(tensor, TENSOR_GRAD_FN, node.object);
  replace(tensor, TENSOR_OUTPUT_NR, nr);
  return true;
}

}  // namespace recording

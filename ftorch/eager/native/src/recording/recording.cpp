// A step in the thread's trace, see recording.h and `record` of `ftorch/eager/runtime/executor.py`.
#include "recording/recording.h"
#include <structmember.h>
#include <initializer_list>

namespace recording {

Py_ssize_t offsets[SLOTS];
Known known;
PyObject *zero, *name_grad, *name_inference;

namespace {

PyObject *examined = nullptr, *dispatches = nullptr, *name_subclasses;  // see `know_classes`

PyObject *name_cpu, *name_acquire, *name_release, *name_cut, *name_load;

// Where in the trace each operand is: a slot, or -1 - an input. False: it is not simply there.
bool places(PyObject* trace, const Step& step, PyObject** found, PyObject** inputs) {
  Py_ssize_t count = PyList_GET_SIZE(at(trace, TRACE_INPUTS));
  for (int i = 0; i < step.count; i++) {
    PyObject *storage = step.storages[i], *own = at(storage, STORAGE_TRACE);
    if (own == trace) {
      Py_INCREF(found[i] = at(storage, STORAGE_SLOT));
      continue;
    }
    PyObject* array = at(storage, STORAGE_ARRAY);
    if (own != Py_None || array == Py_None || !array) return false;
    Held identity(PyLong_FromVoidPtr(array));
    if (!identity) return false;
    PyObject* index = PyDict_GetItemWithError(at(trace, TRACE_INPUT_OF), identity.object);
    if (index) {
      Py_INCREF(found[i] = index);
    } else {
      for (int j = 0; j < i && !found[i]; j++)
        if (inputs[j] == array) Py_INCREF(found[i] = found[j]);
      if (!found[i]) {
        inputs[i] = array;
        found[i] = PyLong_FromSsize_t(-1 - count++);
      }
    }
    if (!found[i]) return false;
  }
  return true;
}

bool append_long(PyObject* list, long value) {
  Held number(PyLong_FromLong(value));
  return number && PyList_Append(list, number.object) == 0;
}

// What a storage was that the step at hand writes to, for `replaced`: (key, value), new references. `mark_written` in Python.
bool earlier(PyObject* trace, PyObject* storage, Py_ssize_t slot, Held& key, Held& value) {
  if (at(storage, STORAGE_TRACE) == trace) {
    key.object = PyLong_FromSsize_t(slot);
    Py_INCREF(value.object = at(storage, STORAGE_SLOT));
    return key.object != nullptr;
  }
  PyObject* array = at(storage, STORAGE_ARRAY);
  if (!array || array == Py_None) return true;
  key.object = PyLong_FromVoidPtr(storage);
  Held identity(PyLong_FromVoidPtr(array));
  if (!key || !identity) return false;
  PyObject* found = PyDict_GetItemWithError(at(trace, TRACE_INPUT_OF), identity.object);
  if (!found && PyErr_Occurred()) return false;
  if (!found) found = PyLong_AsLong(at(at(storage, STORAGE_ROOT), GEOMETRY_NUMEL)) <= known.kept_elements ? array : Py_None;
  Py_INCREF(value.object = found);
  return true;
}

// The caller holds the trace's lock; nothing in here runs Python code or collects garbage.
bool append(PyObject* trace, const Step& step, PyObject** found, PyObject** inputs, long steps, Held& before) {
  PyObject *code = at(trace, TRACE_CODE), *owners = at(trace, TRACE_OWNERS);
  Py_ssize_t first = PyList_GET_SIZE(owners);
  Held key, value, version;
  if (step.writes) {
    version.object = PyLong_FromLongLong(PyLong_AsLongLong(at(step.results[0], STORAGE_VERSION)) + 1);
    if (!version || !earlier(trace, step.results[0], first, key, value)) return false;
  }
  if (PyList_Append(code, step.plan) < 0) return false;
  for (int i = 0; i < step.count; i++) {
    if (inputs[i]) {
      Held identity(PyLong_FromVoidPtr(inputs[i]));
      if (!identity || PyList_Append(at(trace, TRACE_INPUTS), inputs[i]) < 0 ||
          PyDict_SetItem(at(trace, TRACE_INPUT_OF), identity.object, found[i]) < 0) return false;
    }
    if (PyList_Append(code, found[i]) < 0) return false;
  }
  PyObject* kinds = at(step.plan, PLAN_SCALARS);
  for (int i = 0; i < step.scalars; i++) {
    PyObject* list = at(trace, PyUnicode_READ_CHAR(kinds, i) == 'i' ? TRACE_INTS : TRACE_FLOATS);
    if (PyList_Append(list, step.numbers[i]) < 0) return false;
  }
  PyObject* slots[MOST_RESULTS];
  int made = 0;
  for (; made < step.made; made++)
    if (!(slots[made] = PyLong_FromSsize_t(first + made))) break;
  bool fine = made == step.made;
  for (int i = 0; fine && i < made; i++) fine = PyList_Append(owners, step.results[i]) == 0;
  Held count(PyLong_FromLong(steps)), ops(PyLong_FromLong(PyLong_AsLong(at(known.statistics, STATS_OPS)) + 1));
  fine = fine && count && ops && (!key || PyDict_SetItem(at(trace, TRACE_REPLACED), key.object, value.object) == 0);
  if (fine && step.writes) {
    PyObject* written = step.results[0];
    if (at(written, STORAGE_TRACE) == trace) {
      Py_INCREF(known.overwritten);  // nobody needs the value that it had
      PyList_SetItem(owners, PyLong_AsSsize_t(at(written, STORAGE_SLOT)), known.overwritten);
    } else {
      Py_INCREF(trace);
      replace(written, STORAGE_TRACE, trace);
      before.object = at(written, STORAGE_ARRAY);  // let go of later: that may run Python code
      put(written, STORAGE_ARRAY, Py_None);
    }
    replace(written, STORAGE_VERSION, version.release());
  }
  for (int i = 0; i < made; i++) {
    if (fine) replace(step.results[i], STORAGE_SLOT, slots[i]);
    else Py_DECREF(slots[i]);
  }
  if (!fine) return false;
  replace(trace, TRACE_STEPS, count.release());
  replace(known.statistics, STATS_OPS, ops.release());
  return true;
}

// Takes away what a step left that could not be appended to its end: memory was short.
void take_back(PyObject* trace, long steps) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyLong_AsLong(at(trace, TRACE_STEPS)) != steps) {
    Held done(PyObject_CallMethodNoArgs(trace, name_cut));
    PyErr_Clear();
  }
  PyErr_Restore(type, value, traceback);
}

// What a layout keeps for a view's offset: (plan, starts), borrowed.
PyObject* kept(PyObject* tensor, Slot slot) {
  PyObject* layout = PyDict_GetItemWithError(at(at(tensor, TENSOR_GEOMETRY), GEOMETRY_READS),
                                             at(at(tensor, TENSOR_STORAGE), STORAGE_ROOT));
  if (!layout) return nullptr;
  PyObject* pair = PyDict_GetItemWithError(at(layout, slot), at(tensor, TENSOR_OFFSET));
  return pair && PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 &&
                 PyTuple_GET_SIZE(PyTuple_GET_ITEM(pair, 1)) <= MOST ? pair : nullptr;
}

bool set_offset(PyObject* cls, const char* name, Slot slot) {
  Held found(PyObject_GetAttrString(cls, name));
  if (!found) return false;
  if (Py_TYPE(found.object) != &PyMemberDescr_Type ||
      reinterpret_cast<PyMemberDescrObject*>(found.object)->d_member->type != T_OBJECT_EX) {
    PyErr_Format(PyExc_TypeError, "%s is no slot", name);
    return false;
  }
  offsets[slot] = reinterpret_cast<PyMemberDescrObject*>(found.object)->d_member->offset;
  return true;
}

}  // namespace

bool is_plain(PyTypeObject* type) {
  if (type == known.tensor) return true;
  static PyTypeObject* others[4];  // such are never taken out of the set
  for (PyTypeObject*& other : others) {
    if (other == type) return true;
    if (other) continue;
    if (PySet_Contains(known.plain, reinterpret_cast<PyObject*>(type)) != 1) {
      PyErr_Clear();
      return false;
    }
    Py_INCREF(type);
    other = type;
    return true;
  }
  return false;
}

bool has_say(PyTypeObject* type) {
  if (!examined || !PyType_IsSubtype(type, known.tensor)) return false;
  PyObject* found = PyDict_GetItemWithError(examined, reinterpret_cast<PyObject*>(type));
  const int dispatching = found == Py_True ? PySet_Contains(dispatches, reinterpret_cast<PyObject*>(type)) : 1;
  if (dispatching < 0 || !found) PyErr_Clear();
  return dispatching == 0;
}

bool is_plain_now(PyTypeObject* type) { return is_plain(type) || (has_say(type) && is_off(name_subclasses)); }

// `overrides._examined` and the classes with a `__torch_dispatch__`.
PyObject* know_classes(PyObject*, PyObject* arguments) {
  PyObject *classes, *set;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyDict_Type, &classes, &PySet_Type, &set)) return nullptr;
  Py_INCREF(arguments);  // for good, with what is in it
  name_subclasses = PyUnicode_InternFromString("subclasses");
  examined = classes, dispatches = set;
  Py_RETURN_NONE;
}

bool is_number(PyObject* value, long number) {
  int overflow;
  return value && PyLong_Check(value) && PyLong_AsLongAndOverflow(value, &overflow) == number && !overflow;
}

PyObject* current_trace() {
  PyObject* trace = PyObject_GetAttr(known.threads, name_cpu);
  if (trace && Py_TYPE(trace) != known.trace) Py_CLEAR(trace);
  return trace;
}

PyObject* new_storage(PyObject* geometry, PyObject* trace) {
  PyObject* storage = known.storage->tp_alloc(known.storage, 0);
  if (!storage) return nullptr;
  put(storage, STORAGE_ARRAY, Py_None);
  put(storage, STORAGE_HOST, Py_None);
  put(storage, STORAGE_ERROR, Py_None);
  put(storage, STORAGE_EXTRA, Py_None);
  put(storage, STORAGE_TRACE, trace);
  put(storage, STORAGE_SLOT, zero);
  put(storage, STORAGE_ROOT, geometry);
  put(storage, STORAGE_VERSION, at(trace, TRACE_BIRTH));
  put(storage, STORAGE_LEVEL, PyList_GET_ITEM(known.newest_level, 0));
  return storage;
}

PyObject* new_tensor(PyObject* storage) {
  PyObject* t = known.tensor->tp_alloc(known.tensor, 0);
  if (!t) return nullptr;
  put(t, TENSOR_STORAGE, storage);
  put(t, TENSOR_GEOMETRY, at(storage, STORAGE_ROOT));
  put(t, TENSOR_OFFSET, zero);
  put(t, TENSOR_REQUIRES_GRAD, Py_False);
  for (Slot slot : {TENSOR_GRAD_FN, TENSOR_GRAD, TENSOR_BASE, TENSOR_META}) put(t, slot, Py_None);
  put(t, TENSOR_OUTPUT_NR, zero);
  put(t, TENSOR_ATTR_VERSION, zero);
  return t;
}

// A tensor of another class that is the same: in the same memory and at the same place in the graph.
PyObject* as_subclass(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !PyType_IsSubtype(Py_TYPE(arguments[0]), known.tensor->tp_base) || !PyType_Check(arguments[1]) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(arguments[1]), known.tensor->tp_base)) {
    PyErr_SetString(PyExc_TypeError, "as_subclass takes a tensor and a class of such");
    return nullptr;
  }
  Held nothing(PyTuple_New(0));
  PyObject* t = nothing ? PyBaseObject_Type.tp_new(reinterpret_cast<PyTypeObject*>(arguments[1]), nothing.object, nullptr) : nullptr;
  for (int slot = TENSOR_STORAGE; t && slot <= TENSOR_META; slot++) {
    at(t, static_cast<Slot>(slot)) = Py_XNewRef(at(arguments[0], static_cast<Slot>(slot)));
  }
  return t;
}

bool record(PyObject* trace, const Step& step) {
  PyObject* kinds = at(step.plan, PLAN_SCALARS);
  Held before;
  bool done = false;
  bool fits = step.count <= MOST && step.made <= MOST_RESULTS;
  if (fits && PyUnicode_Check(kinds) && PyUnicode_GET_LENGTH(kinds) == step.scalars) {
    Held locked(PyObject_CallMethodNoArgs(at(trace, TRACE_LOCK), name_acquire));
    if (locked) {
      PyObject *found[MOST] = {}, *inputs[MOST] = {};
      long steps = PyLong_AsLong(at(trace, TRACE_STEPS)) + 1;
      bool alien = step.writes && at(step.results[0], STORAGE_TRACE) != trace && at(step.results[0], STORAGE_TRACE) != Py_None;
      // A signal's handler or a finalizer, which has interrupted a step or a run: Python sorts that out.
      bool nested = at(trace, TRACE_RECORDING) != Py_False || PyTuple_GET_SIZE(at(trace, TRACE_RUNNING)) > 0;
      if (steps < known.most_steps && !alien && !nested && places(trace, step, found, inputs)) {
        done = append(trace, step, found, inputs, steps, before);
        if (!done) take_back(trace, steps);
      }
      PyObject *type, *value, *traceback;  // the lock is given back, whatever is being raised
      PyErr_Fetch(&type, &value, &traceback);
      Held released(PyObject_CallMethodNoArgs(at(trace, TRACE_LOCK), name_release));
      if (type) PyErr_Restore(type, value, traceback);
      for (int i = 0; i < step.count; i++) Py_XDECREF(found[i]);
    }
  }
  if (!done && !step.writes)
    for (int i = 0; i < step.made; i++) {
      Py_INCREF(Py_None);
      replace(step.results[i], STORAGE_TRACE, Py_None);
    }
  return done;
}

PyObject* storage_of(PyObject* tensor, PyObject* trace) {
  PyObject *own = at(tensor, TENSOR_STORAGE), *root = at(own, STORAGE_ROOT);
  if (at(tensor, TENSOR_GEOMETRY) == root) {
    Py_INCREF(own);
    if (at(own, STORAGE_HOST) == Py_None || at(own, STORAGE_TRACE) != Py_None || at(own, STORAGE_ARRAY) != Py_None) return own;
    Held shared(own);  // memory of the user's: what it holds now
    PyObject* array = PyObject_CallMethodNoArgs(own, name_load);
    Held made(array ? new_storage(root, trace) : nullptr);
    if (made) {
      Py_INCREF(Py_None);
      replace(made.object, STORAGE_TRACE, Py_None);
      replace(made.object, STORAGE_ARRAY, array);
    } else {
      Py_XDECREF(array);
    }
    return made.release();
  }
  PyObject* pair = at(own, STORAGE_HOST) == Py_None ? kept(tensor, LAYOUT_READS) : nullptr;
  if (!pair) return PyErr_Occurred() ? nullptr : PyObject_CallOneArg(known.read, tensor);
  Held whole(pair);
  Py_INCREF(pair);
  PyObject *plan = PyTuple_GET_ITEM(pair, 0), *starts = PyTuple_GET_ITEM(pair, 1);
  Held made(new_storage(PyTuple_GET_ITEM(at(plan, PLAN_GEOMETRIES), 0), trace));
  if (!made) return nullptr;
  Step step{plan, &own, 1, reinterpret_cast<PyTupleObject*>(starts)->ob_item, static_cast<int>(PyTuple_GET_SIZE(starts)),
            &made.object, 1, false};
  if (record(trace, step)) return made.release();
  return PyErr_Occurred() ? nullptr : PyObject_CallOneArg(known.read, tensor);
}

PyObject* known_write(PyObject* tensor) { return kept(tensor, LAYOUT_WRITES); }

// `classes`: pairs of a class and its slots, in the order of `Slot`.
bool configure_slots(PyObject* classes) {
  Py_ssize_t slot = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++) {
    PyObject* pair = PyTuple_GET_ITEM(classes, i);
    Held names(PyUnicode_Split(PyTuple_GET_ITEM(pair, 1), nullptr, -1));
    if (!names) return false;
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(names.object); j++) {
      if (slot == SLOTS) break;
      if (!set_offset(PyTuple_GET_ITEM(pair, 0), PyUnicode_AsUTF8(PyList_GET_ITEM(names.object, j)), static_cast<Slot>(slot++)))
        return false;
    }
  }
  if (slot != SLOTS) {
    PyErr_SetString(PyExc_TypeError, "not all slots are named");
    return false;
  }
  name_cpu = PyUnicode_InternFromString("cpu");
  name_grad = PyUnicode_InternFromString("grad");
  name_inference = PyUnicode_InternFromString("inference");
  name_acquire = PyUnicode_InternFromString("acquire");
  name_release = PyUnicode_InternFromString("release");
  name_cut = PyUnicode_InternFromString("cut");
  name_load = PyUnicode_InternFromString("load");
  zero = PyLong_FromLong(0);
  return true;
}

}  // namespace recording

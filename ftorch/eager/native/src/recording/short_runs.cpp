// Short traces that have a function: `Trace.flush` of `ftorch/eager/runtime/trace.py` with `short_traces.execute`, for what
// is looked at. Whatever is not common is left to those, before anything has been changed.
#include "objects/arrays.h"
#include "recording/recording.h"

#include <numpy/arrayscalars.h>

#include <cstring>

namespace recording {

namespace {

constexpr Py_ssize_t MOST_STEPS = 40, MOST_LIVE = 64;
constexpr long TRIALS = 12;  // runs whose time Python looks at

PyObject *name_acquire, *name_release, *name_resume;

// What is live in a trace: how many values, or -1 if there are more than MOST_LIVE. Nothing is allocated.
Py_ssize_t find_live(PyObject* trace, PyObject* owners, PyObject** storages) {
  Py_ssize_t count = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(owners); i++) {
    PyObject* storage = PyList_GET_ITEM(owners, i);
    if (Py_REFCNT(storage) < 2 || Py_TYPE(storage) != known.storage || at(storage, STORAGE_TRACE) != trace) continue;
    if (PyLong_AsSsize_t(at(storage, STORAGE_SLOT)) != i) continue;
    if (count == MOST_LIVE) return -1;
    storages[count++] = storage;
  }
  return count;
}

bool is_idle(PyObject* trace) {
  return at(trace, TRACE_RECORDING) == Py_False && PyTuple_GET_SIZE(at(trace, TRACE_RUNNING)) == 0;
}

// A trace's numbers as NumPy's; null, perhaps with an error: they are not there.
PyObject* numbers_of(PyObject* kinds, PyObject* ints, PyObject* floats) {
  const Py_ssize_t count = PyUnicode_GET_LENGTH(kinds);
  Held numbers(PyTuple_New(count));
  Py_ssize_t next_int = 0, next_float = 0;
  for (Py_ssize_t i = 0; numbers && i < count; i++) {
    PyObject* number;
    const bool is_int = PyUnicode_READ_CHAR(kinds, i) == 'i';
    if ((is_int ? next_int : next_float) >= PyList_GET_SIZE(is_int ? ints : floats)) return nullptr;
    if (is_int) {
      if (!(number = PyArrayScalar_New(Int64))) return nullptr;
      PyArrayScalar_ASSIGN(number, Int64, PyLong_AsLongLong(PyList_GET_ITEM(ints, next_int++)));
    } else {
      if (!(number = PyArrayScalar_New(Double))) return nullptr;
      PyArrayScalar_ASSIGN(number, Double, PyFloat_AsDouble(PyList_GET_ITEM(floats, next_float++)));
    }
    PyTuple_SET_ITEM(numbers.object, i, number);
    if (PyErr_Occurred()) return nullptr;
  }
  return numbers.release();
}

// Whether an array's elements lie in another order than those of a dense one, none of them repeated.
bool is_turned(PyArrayObject* array) {
  if (PyArray_IS_C_CONTIGUOUS(array)) return false;
  for (int d = 0; d < PyArray_NDIM(array); d++)
    if (!PyArray_STRIDE(array, d)) return false;
  return true;
}

// A result as `_own` in Python makes it for a storage (a new reference).
PyObject* owned(PyObject* result, PyObject* storage) {
  if (PyArray_CheckExact(result)) {
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(result);
    PyObject* base = PyArray_BASE(array);
    const bool is_part = base && PyArray_CheckExact(base) &&
                         2 * PyArray_NBYTES(array) <= PyArray_NBYTES(reinterpret_cast<PyArrayObject*>(base));
    if (is_part || (base && at(at(storage, STORAGE_ROOT), GEOMETRY_CONTIGUOUS) == Py_True && is_turned(array)))
      return PyArray_NewCopy(array, NPY_CORDER);
  }
  Py_INCREF(result);
  return result;
}

// The function of what a trace holds (borrowed), and the kinds of its numbers; null where Python has to run it.
PyObject* find_function(PyObject* code, PyObject* const* storages, Py_ssize_t live, Held& found, PyObject*& kinds) {
  const Py_ssize_t steps = PyList_GET_SIZE(code);
  Held key(PyTuple_New(steps + 1 + live));
  if (!key) return nullptr;
  PyTuple_SET_ITEM(key.object, steps, Py_NewRef(Py_None));
  for (Py_ssize_t i = 0; i < live; i++) PyTuple_SET_ITEM(key.object, steps + 1 + i, Py_NewRef(at(storages[i], STORAGE_SLOT)));
  if (PyList_GET_SIZE(code) != steps) return nullptr;
  for (Py_ssize_t i = 0; i < steps; i++) PyTuple_SET_ITEM(key.object, i, Py_NewRef(PyList_GET_ITEM(code, i)));
  found.object = Py_XNewRef(PyDict_GetItemWithError(known.short_traces, key.object));
  if (!found || PyLong_AsLong(at(found.object, SHORT_SEEN)) <= TRIALS) return nullptr;
  kinds = at(found.object, SHORT_KINDS);
  PyObject* run = at(found.object, SHORT_RUN);
  return run == Py_None || run == Py_False || PyUnicode_FindChar(kinds, 'c', 0, PyUnicode_GET_LENGTH(kinds), 1) != -1 ? nullptr : run;
}

struct Fresh {  // lists and dictionaries for a trace whose own become a run's
  static constexpr Slot slots[] = {TRACE_CODE, TRACE_OWNERS, TRACE_INPUTS, TRACE_INPUT_OF, TRACE_INTS, TRACE_FLOATS, TRACE_STEPS, TRACE_REPLACED};
  PyObject* made[8] = {};
  bool make() {
    for (int i = 0; i < 8; i++) {
      const Slot slot = slots[i];
      if (slot == TRACE_STEPS) made[i] = Py_NewRef(zero);
      else made[i] = slot == TRACE_INPUT_OF || slot == TRACE_REPLACED ? PyDict_New() : PyList_New(0);
      if (!made[i]) return false;
    }
    return true;
  }
  ~Fresh() {
    for (PyObject* object : made) Py_XDECREF(object);
  }
};
constexpr Slot Fresh::slots[];

// With the lock. What is freed last may run Python code: `content` keeps it for the caller.
int run_locked(PyObject* trace, Held& content) {
  PyObject *storages[MOST_LIVE], *again[MOST_LIVE];
  const long steps = PyLong_AsLong(at(trace, TRACE_STEPS));
  if (steps < 1 || steps > MOST_STEPS || !is_idle(trace)) return 0;
  Held code(Py_NewRef(at(trace, TRACE_CODE)));
  const Py_ssize_t live = find_live(trace, at(trace, TRACE_OWNERS), storages);
  if (live < 1) return 0;
  PyObject* kinds = nullptr;
  Held known_trace;
  Held function(Py_XNewRef(find_function(code.object, storages, live, known_trace, kinds)));
  if (!function) return PyErr_Occurred() ? -1 : 0;
  Held numbers(numbers_of(kinds, at(trace, TRACE_INTS), at(trace, TRACE_FLOATS)));
  if (!numbers) return PyErr_Occurred() ? -1 : 0;
  // What is needed is made first: garbage collected meanwhile may compute. Then nothing is made until the run is known.
  Fresh fresh;
  Held run(known.run->tp_alloc(known.run, 0)), slots(PyList_New(live)), keep(PyList_New(live)), finished(PyList_New(0)), running(PyTuple_New(1));
  content.object = PyTuple_New(8);
  if (!fresh.make() || !run || !slots || !keep || !finished || !running || !content) return -1;
  if (!is_idle(trace) || at(trace, TRACE_CODE) != code.object || PyLong_AsLong(at(trace, TRACE_STEPS)) != steps ||
      find_live(trace, at(trace, TRACE_OWNERS), again) != live || std::memcmp(storages, again, live * sizeof *storages))
    return 0;
  for (Py_ssize_t i = 0; i < live; i++) {
    PyList_SET_ITEM(slots.object, i, Py_NewRef(at(storages[i], STORAGE_SLOT)));
    PyList_SET_ITEM(keep.object, i, Py_NewRef(storages[i]));
  }
  for (int i = 0; i < 8; i++) {
    PyTuple_SET_ITEM(content.object, i, at(trace, Fresh::slots[i]));
    at(trace, Fresh::slots[i]) = fresh.made[i];
    fresh.made[i] = nullptr;
  }
  put(run.object, RUN_CONTENT, content.object);
  put(run.object, RUN_LIVE, slots.object);
  put(run.object, RUN_KEEP, keep.object);
  put(run.object, RUN_FINISHED, finished.object);
  put(run.object, RUN_AROUND, at(trace, TRACE_RUNNING));
  put(run.object, RUN_OVER, Py_False);
  PyTuple_SET_ITEM(running.object, 0, Py_NewRef(run.object));
  PyObject* around = at(trace, TRACE_RUNNING);  // held by the run
  at(trace, TRACE_RUNNING) = running.release();
  Py_DECREF(around);

  PyObject* arguments[] = {PyTuple_GET_ITEM(content.object, 2), Py_None, numbers.object};
  Held before(PyContextVar_Set(known.errors, known.ignored));
  Held results(before ? PyObject_Vectorcall(function.object, arguments, 3, nullptr) : nullptr);
  PyObject *arrays[MOST_LIVE];
  Py_ssize_t made = 0;
  if (results && PyList_CheckExact(results.object) && PyList_GET_SIZE(results.object) == live)
    for (; made < live; made++)
      if (!(arrays[made] = owned(PyList_GET_ITEM(results.object, made), PyList_GET_ITEM(keep.object, made)))) break;
  if (before) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyContextVar_Reset(known.errors, before.object) < 0) PyErr_Clear();
    if (type) PyErr_Restore(type, value, traceback);
  }
  if (made == live) {
    // From here to the end nothing runs that may compute.
    for (Py_ssize_t i = 0; i < live; i++) {
      PyObject* storage = PyList_GET_ITEM(keep.object, i);
      if (at(run.object, RUN_OVER) == Py_False && at(storage, STORAGE_TRACE) == trace &&
          at(storage, STORAGE_SLOT) == PyList_GET_ITEM(slots.object, i)) {
        replace(storage, STORAGE_ARRAY, arrays[i]);  // it was None
        replace(storage, STORAGE_TRACE, Py_NewRef(Py_None));
      } else {
        PyList_SetItem(slots.object, i, arrays[i]);  // let go of later
      }
    }
    replace(run.object, RUN_OVER, Py_NewRef(Py_True));
    replace(trace, TRACE_RUNNING, Py_NewRef(at(run.object, RUN_AROUND)));
    return 1;
  }
  for (Py_ssize_t i = 0; i < made; i++) Py_DECREF(arrays[i]);
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a trace gave another number of values than it has");
  if (PyErr_ExceptionMatches(PyExc_Exception)) replace(known_trace.object, SHORT_RUN, Py_NewRef(Py_False));
  bool fine = at(run.object, RUN_OVER) == Py_True && PyErr_ExceptionMatches(PyExc_Exception);  // a handler has the values
  if (fine) PyErr_Clear();
  for (int attempt = 0; attempt < 4 && at(run.object, RUN_OVER) != Py_True; attempt++) {  // a signal may come as Python begins
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    Held done(PyObject_CallMethodObjArgs(trace, name_resume, run.object, value, nullptr));
    fine = static_cast<bool>(done);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  replace(trace, TRACE_RUNNING, Py_NewRef(at(run.object, RUN_AROUND)));
  return fine ? 1 : -1;
}

}  // namespace

int run_short(PyObject* trace) {
  if (!zero || Py_TYPE(trace) != known.trace || !known.writes || known.errors == Py_None || at(trace, TRACE_DEVICE) != known.cpu ||
      !is_idle(trace) || is_number(at(trace, TRACE_STEPS), 0) || PyList_GET_ITEM(known.forked, 0) != Py_False) return 0;
  if (!name_acquire) {
    name_acquire = PyUnicode_InternFromString("acquire");
    name_release = PyUnicode_InternFromString("release");
    name_resume = PyUnicode_InternFromString("resume");
  }
  Held content, kept(Py_NewRef(trace));
  Held locked(PyObject_CallMethodNoArgs(at(trace, TRACE_LOCK), name_acquire));
  if (!locked) return -1;
  const int done = run_locked(trace, content);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Held released(PyObject_CallMethodNoArgs(at(trace, TRACE_LOCK), name_release));
  if (type) PyErr_Restore(type, value, traceback);
  if (done == 1) {
    PyObject* programs = PyLong_FromLong(PyLong_AsLong(at(known.statistics, STATS_PROGRAMS)) + 1);
    if (!programs) return -1;
    replace(known.statistics, STATS_PROGRAMS, programs);
  }
  return done;
}

PyObject* run_short_trace(PyObject*, PyObject* trace) {
  const int done = run_short(trace);
  return done < 0 ? nullptr : PyBool_FromLong(done);
}

}  // namespace recording

// Traces that have a function: `Trace.flush` of `ftorch/eager/runtime/trace.py` with `short_traces.execute`, for what is looked
// at; and where a trace comes for the first time, with what `program.execute` does for those that differ from others in sizes
// only (`trace_programs.py`). Whatever is not common is left to those, before anything has been changed.
#include "objects/arrays.h"
#include "recording/recording.h"

#include <numpy/arrayscalars.h>

#include <cstring>

namespace recording {

namespace {

constexpr Py_ssize_t MOST_STEPS = 40, MOST_LIVE = 128;
constexpr long TRIALS = 12;  // runs whose time Python looks at
constexpr long MOST_ELEMENTS = 1 << 23;  // of the live values of a trace that comes first: more may be worth a program at once

PyObject *name_acquire, *name_release, *name_resume, *name_enabled, *opaque;
constexpr int WAYS = 4;
Py_hash_t marks[4096][WAYS];  // of traces, those that came last first: see `Mark`

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

// What stands for a step in the keys of `trace_programs.find`, new; null perhaps without an error: Python has to run it.
PyObject* part_of_key(PyObject* plan) {
  PyObject *instance = at(plan, PLAN_INSTANCE), *program = Py_None;
  if (instance != Py_None && Py_TYPE(instance) == known.instance && at(instance, INSTANCE_DTYPE) == Py_None) {
    PyObject* of = at(instance, INSTANCE_OF);
    if (Py_TYPE(of) == known.size_class) program = at(of, SIZE_CLASS_PROGRAM);
    else if (Py_TYPE(of) == known.class_of_gradients) program = at(of, CLASS_OF_GRADIENTS_PROGRAM);
  }
  if (program != Py_None) return Py_NewRef(program);
  if (at(plan, PLAN_COMPILED) != Py_None) return nullptr;
  if (at(plan, PLAN_PROGRAM) != Py_None && PyLong_AsLong(at(plan, PLAN_RUNS)) > 1) return Py_NewRef(plan);
  PyObject* host = at(plan, PLAN_HOST);  // found anew for each size
  if (host == Py_None || host == Py_False) return nullptr;
  Held count(PyLong_FromSsize_t(PyTuple_Size(at(plan, PLAN_GEOMETRIES))));
  return count ? PyTuple_Pack(3, opaque, count.object, at(plan, PLAN_SCALARS)) : nullptr;
}

// What is known of a trace by its hash, which stands in `marks` if it came once and ran here, and as its complement if
// Python is to run it.
struct Mark {
  Py_hash_t hash, before;  // the last: what stood there, 0 if nothing did

  Mark(PyObject* code, PyObject* const* storages, Py_ssize_t live) {
    Py_uhash_t mixed = 0;
    const auto add = [&mixed](PyObject* item) {
      const Py_ssize_t value = PyLong_CheckExact(item) ? PyLong_AsLong(item) : reinterpret_cast<Py_ssize_t>(item) >> 4;
      mixed = (mixed ^ static_cast<Py_uhash_t>(value)) * 1099511628211u;
    };
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(code); i++) add(PyList_GET_ITEM(code, i));
    for (Py_ssize_t i = 0; i < live; i++) add(at(storages[i], STORAGE_SLOT));
    hash = static_cast<Py_hash_t>(mixed);
    int place = 0;
    while (place < WAYS - 1 && row()[place] != hash && row()[place] != ~hash) place++;
    before = row()[place] == hash || row()[place] == ~hash ? row()[place] : 0;
    std::memmove(row() + 1, row(), place * sizeof(Py_hash_t));
    row()[0] = ~hash;  // until it is known that it runs here
  }

  bool is_for_python() const { return before == ~hash; }
  bool came() const { return before == hash; }
  void note() { row()[0] = hash; }

 private:
  Py_hash_t* row() const {
    const Py_uhash_t mixed = static_cast<Py_uhash_t>(hash);
    return marks[(mixed ^ mixed >> 32) % (sizeof marks / sizeof *marks)];
  }
};

// The function of traces that differ from this one, which comes for the first time, in sizes only (borrowed), the plans that
// are to be given to it and the kinds of its numbers; null where Python has to run it.
PyObject* find_class_function(PyObject* code, PyObject* const* storages, Py_ssize_t live, Held& plans, Held& found, PyObject*& kinds) {
  const Py_ssize_t steps = PyList_GET_SIZE(code);
  Mark mark(code, storages, live);
  if (mark.is_for_python()) return nullptr;
  long elements = 0;
  for (Py_ssize_t i = 0; i < live; i++) elements += PyLong_AsLong(at(at(storages[i], STORAGE_ROOT), GEOMETRY_NUMEL));
  if (!PyDict_Size(known.trace_programs) || elements > MOST_ELEMENTS ||
      PyDict_GetItemWithError(known.host_tier, name_enabled) != Py_True) return nullptr;
  Held key(PyTuple_New(steps + 1)), slots(PyTuple_New(live));
  plans.object = PyList_New(0);
  if (!key || !slots || !plans || PyList_GET_SIZE(code) != steps) return nullptr;
  for (Py_ssize_t i = 0; i < live; i++) PyTuple_SET_ITEM(slots.object, i, Py_NewRef(at(storages[i], STORAGE_SLOT)));
  bool varies = false;
  for (Py_ssize_t i = 0; i < steps; i++) {
    PyObject *item = PyList_GET_ITEM(code, i), *part;
    if (PyLong_CheckExact(item)) {
      part = Py_NewRef(item);
    } else if (!(part = part_of_key(item)) || PyList_Append(plans.object, item) < 0) {
      Py_XDECREF(part);
      return nullptr;
    } else {
      varies = varies || at(item, PLAN_INSTANCE) != Py_None;
    }
    PyTuple_SET_ITEM(key.object, i, part);
    if (PyList_GET_SIZE(code) != steps) return nullptr;
  }
  PyTuple_SET_ITEM(key.object, steps, Py_NewRef(slots.object));
  found.object = varies ? Py_XNewRef(PyDict_GetItemWithError(known.trace_programs, key.object)) : nullptr;
  if (!found || Py_TYPE(found.object) != known.trace_program) return nullptr;
  kinds = at(found.object, TRACE_PROGRAM_KINDS);
  if (PyUnicode_FindChar(kinds, 'c', 0, PyUnicode_GET_LENGTH(kinds), 1) != -1) return nullptr;
  if (mark.came()) {  // what comes again may be worth a program of its own
    Held done(PyObject_CallFunctionObjArgs(known.note_trace, code, slots.object, nullptr));
    return nullptr;
  }
  mark.note();
  return at(found.object, TRACE_PROGRAM_FUNCTION);
}

// Storages that stay while keys are made: garbage that is collected meanwhile may compute, and let go of them.
struct Kept {
  PyObject* const* storages;
  Py_ssize_t count;
  Kept(PyObject* const* storages, Py_ssize_t count) : storages(storages), count(count) {
    for (Py_ssize_t i = 0; i < count; i++) Py_INCREF(storages[i]);
  }
  ~Kept() {
    for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(storages[i]);
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
};

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
  if (steps < 1 || !is_idle(trace)) return 0;
  Held code(Py_NewRef(at(trace, TRACE_CODE)));
  const Py_ssize_t live = find_live(trace, at(trace, TRACE_OWNERS), storages);
  if (live < 1) return 0;
  const Kept kept(storages, live);
  PyObject* kinds = nullptr;
  Held known_trace, plans, of_class;
  PyObject* chosen = steps <= MOST_STEPS ? find_function(code.object, storages, live, known_trace, kinds) : nullptr;
  if (!chosen && !known_trace && !PyErr_Occurred()) {
    chosen = find_class_function(code.object, storages, live, plans, of_class, kinds);
    if (!chosen && !PyErr_Occurred()) return 0;
  }
  Held function(Py_XNewRef(chosen));
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

  PyObject* arguments[] = {PyTuple_GET_ITEM(content.object, 2), of_class ? plans.object : Py_None, numbers.object};
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
  if (known_trace && PyErr_ExceptionMatches(PyExc_Exception)) replace(known_trace.object, SHORT_RUN, Py_NewRef(Py_False));
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
    opaque = PyUnicode_InternFromString("opaque");
    name_enabled = PyUnicode_InternFromString("ENABLED");
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

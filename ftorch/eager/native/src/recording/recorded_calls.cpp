// The commonest ways of a call, in C: an op on plain tensors and numbers whose plan is known, recorded in the thread's
// trace, with the tape's node if an operand requires grad; and the same where the result is written into the first
// operand. They do what `_call` and `_call_inplace` of `ftorch/eager/call/op.py` say; whatever is not common is left to
// those, before anything has been changed.
#include <cmath>

#include "recording/recording.h"
#include "writes/target_memory.h"
#include "writes/writes.h"

namespace recording {

PyObject* name_differentiating;

// Whether a list of the calling thread's modes is empty.
bool is_empty(PyObject* name) {
  Held list(PyObject_GetAttr(known.modes, name));
  return list && PyList_CheckExact(list.object) && !PyList_GET_SIZE(list.object);
}

// Whether several elements of a geometry lie at one place, see `has_internal_overlap`.
bool overlaps_itself(PyObject* geometry) {
  PyObject *shape = at(geometry, GEOMETRY_SHAPE), *stride = at(geometry, GEOMETRY_STRIDE);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); i++)
    if (is_number(PyTuple_GET_ITEM(stride, i), 0) && !is_number(PyTuple_GET_ITEM(shape, i), 1)) return true;
  return false;
}

PyObject* tuple_of(PyObject* const* values, Py_ssize_t count) {
  PyObject* made = PyTuple_New(count);
  for (Py_ssize_t i = 0; made && i < count; i++) {
    Py_INCREF(values[i]);
    PyTuple_SET_ITEM(made, i, values[i]);
  }
  return made;
}

int mode(PyObject* name) {
  Held value(PyObject_GetAttr(known.modes, name));
  return value.object == Py_True ? 1 : value.object == Py_False ? 0 : -1;
}

namespace {

PyObject *name_anomaly, *name_saved_hooks, *name_deferred;
bool configured = false;

struct Operands {
  PyObject* key[2 * MOST];
  PyObject* owned[MOST];  // lengths of lists
  PyObject* tensors[MOST];
  PyObject* numbers[MOST];
  int keys = 0, lengths = 0, count = 0, scalars = 0;
  bool grad = false;
  Held instead;  // what another op is called with: (its name, operands, static arguments)
  ~Operands() {
    for (int i = 0; i < lengths; i++) Py_DECREF(owned[i]);
  }

  bool add_tensor(PyObject* t) {
    if (count == MOST || keys == 2 * MOST) return false;
    PyObject* base = at(t, TENSOR_BASE);
    PyObject* geometry = at(t, TENSOR_GEOMETRY);
    if (!base || !geometry) return false;
    if (base != Py_None && !is_current(t, base)) return false;
    if (at(t, TENSOR_REQUIRES_GRAD) == Py_True) {
      if (PyLong_AsLongLong(at(at(t, TENSOR_STORAGE), STORAGE_VERSION)) < 0) return false;  // of inference mode
      grad = true;
    } else if (base != Py_None && at(base, TENSOR_REQUIRES_GRAD) == Py_True) {
      return false;
    }
    tensors[count++] = t;
    key[keys++] = geometry;
    return true;
  }

  // Whether a view's place in the graph, if there is one, is what it says: see `grad_fn_of` and `joined_graph`.
  static bool is_current(PyObject* t, PyObject* base) {
    if (!is_plain_now(Py_TYPE(base))) return false;
    if (at(base, TENSOR_REQUIRES_GRAD) == Py_False && at(t, TENSOR_GRAD_FN) == Py_None) return true;
    PyObject *own = at(t, TENSOR_ATTR_VERSION), *version = version_of(t);
    return own == version || PyLong_AsLongLong(own) == PyLong_AsLongLong(version);
  }

  bool add(PyObject* o) {
    if (keys == 2 * MOST) return false;
    PyTypeObject* type = Py_TYPE(o);
    if (type == known.tensor) return add_tensor(o);
    if (o == Py_None) {
      key[keys++] = o;
      return true;
    }
    if (type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type) {
      if (scalars == MOST) return false;
      if (type == &PyLong_Type) {
        int overflow;
        PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) return false;
      }
      numbers[scalars++] = o;
      key[keys++] = reinterpret_cast<PyObject*>(type);
      return true;
    }
    if (type != &PyList_Type && type != &PyTuple_Type) return is_plain_now(type) && add_tensor(o);
    Py_ssize_t length = PySequence_Fast_GET_SIZE(o);
    if (lengths == MOST) return false;
    PyObject* number = PyLong_FromSsize_t(length);
    if (!number) {
      PyErr_Clear();
      return false;
    }
    owned[lengths++] = key[keys++] = number;
    for (Py_ssize_t i = 0; i < length; i++) {
      PyObject* item = PySequence_Fast_GET_ITEM(o, i);
      if (is_plain_now(Py_TYPE(item))) {
        if (!add_tensor(item)) return false;
      } else if (item == Py_None && keys < 2 * MOST) {
        key[keys++] = item;
      } else {
        return false;
      }
    }
    return true;
  }
};

// Whether -0.0 is among static arguments, which as a part of a key is not 0.0: see `static_key` of registry.py.
bool has_minus_zero(PyObject* fixed) {
  for (Py_ssize_t i = 0; PyTuple_CheckExact(fixed) && i < PyTuple_GET_SIZE(fixed); i++) {
    PyObject* value = PyTuple_GET_ITEM(fixed, i);
    if (PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) == 0 && std::signbit(PyFloat_AS_DOUBLE(value))) return true;
  }
  return false;
}

// The plan of a call, new; null where it is to be made, or is not an ordinary one.
PyObject* find(PyObject* op, Slot plans, Operands& operands, PyObject* const* values, Py_ssize_t count, PyObject* fixed) {
  if (Py_TYPE(op) != known.op || PyList_GET_ITEM(known.special, 0) != zero || has_minus_zero(fixed)) return nullptr;
  for (Py_ssize_t i = 0; i < count; i++)
    if (!operands.add(values[i])) return nullptr;
  if (operands.scalars && operands.count && at(op, OP_ALTERNATIVE) != Py_None) {
    Held all(tuple_of(values, count));
    operands.instead.object = all ? PyObject_CallObject(at(op, OP_ALTERNATIVE), all.object) : nullptr;
    if (operands.instead.object != Py_None) return nullptr;
  }
  Held key(PyTuple_New(operands.keys + 1));
  if (!key) return nullptr;
  for (int i = 0; i < operands.keys; i++) {
    Py_INCREF(operands.key[i]);
    PyTuple_SET_ITEM(key.object, i, operands.key[i]);
  }
  Py_INCREF(fixed);
  PyTuple_SET_ITEM(key.object, operands.keys, fixed);
  PyObject* plan = Py_XNewRef(PyDict_GetItemWithError(at(op, plans), key.object));
  if (!plan && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();  // an argument that cannot be hashed
    return nullptr;
  }
  if (!plan) plan = plan_of_class(op, plans, key.object);
  if (plan && PyType_IsSubtype(Py_TYPE(plan), known.plan) && at(plan, PLAN_DEVICE) == known.cpu) return plan;
  Py_XDECREF(plan);
  return nullptr;
}

// Makes a plan's checks of values; false with the error that one raised.
bool check(PyObject* plan, PyObject* const* values, Py_ssize_t count, const Operands& operands) {
  PyObject* checks = at(plan, PLAN_CHECKS);
  if (checks == Py_None || are_within(checks, operands.tensors, operands.count, operands.numbers, operands.scalars)) return true;
  Held all(tuple_of(values, count));
  if (!all) return false;
  Held tensors(PyList_New(operands.count));
  if (!tensors) return false;
  for (int i = 0; i < operands.count; i++) {
    Py_INCREF(operands.tensors[i]);
    PyList_SET_ITEM(tensors.object, i, operands.tensors[i]);
  }
  Held done(PyObject_CallFunctionObjArgs(known.check_values, plan, all.object, tensors.object, known.read, nullptr));
  return static_cast<bool>(done);
}

// Storages whose roots the operands are.
struct Storages {
  PyObject* items[MOST];
  int count = 0;
  bool take(const Operands& operands, PyObject* trace) {
    for (; count < operands.count; count++)
      if (!(items[count] = storage_of(operands.tensors[count], trace))) return false;
    return true;
  }
  ~Storages() {
    for (int i = 0; i < count; i++) Py_DECREF(items[i]);
  }
};

// Results in the making.
struct Results {
  PyObject *storages[MOST_RESULTS], *tensors[MOST_RESULTS];
  int count = 0;
  bool make(PyObject* plan, PyObject* trace) {
    PyObject* geometries = at(plan, PLAN_GEOMETRIES);
    if (!PyTuple_CheckExact(geometries) || PyTuple_GET_SIZE(geometries) > MOST_RESULTS) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(geometries); i++) {
      PyObject* storage = new_storage(PyTuple_GET_ITEM(geometries, i), trace);
      PyObject* tensor = storage ? new_tensor(storage) : nullptr;
      if (!tensor) {
        Py_XDECREF(storage);
        return false;
      }
      storages[count] = storage;
      tensors[count++] = tensor;
    }
    return true;
  }
  // What the caller gets: a tensor, or a tuple of them.
  PyObject* given(PyObject* plan) {
    if (at(plan, PLAN_SINGLE) == Py_True) {
      Py_INCREF(tensors[0]);
      return tensors[0];
    }
    PyObject* type = at(plan, PLAN_RESULT_TYPE);
    Held all(type == Py_None ? PyTuple_New(count) : PyList_New(count));
    if (!all) return nullptr;
    for (int i = 0; i < count; i++) {
      Py_INCREF(tensors[i]);
      if (type == Py_None) PyTuple_SET_ITEM(all.object, i, tensors[i]);
      else PyList_SET_ITEM(all.object, i, tensors[i]);
    }
    return type == Py_None ? all.release() : PyObject_CallOneArg(type, all.object);
  }
  ~Results() {
    for (int i = 0; i < count; i++) {
      Py_DECREF(tensors[i]);
      Py_DECREF(storages[i]);
    }
  }
};

// The result of a call; null without an error where Python has to make it.
PyObject* recorded(PyObject* op, PyObject* const* values, Py_ssize_t count, PyObject* fixed) {
  Operands operands;
  PyObject *found = find(op, OP_PLANS, operands, values, count, fixed), *instead = operands.instead.object;
  Held plan(found);
  if (!found && instead && PyTuple_CheckExact(instead) && PyTuple_GET_SIZE(instead) == 3) {
    Held other(PyObject_CallOneArg(known.op_named, PyTuple_GET_ITEM(instead, 0)));
    return other ? call_op(other.object, PyTuple_GET_ITEM(instead, 1), PyTuple_GET_ITEM(instead, 2)) : nullptr;
  }
  if (!found) return nullptr;
  bool tape = false;
  if (operands.grad && at(found, PLAN_DIFFERENTIABLE) != Py_False) {
    int grad = mode(name_grad);
    if (grad < 0 || at(found, PLAN_DIFFERENTIABLE) != Py_True) return nullptr;
    if (grad && (mode(name_anomaly) != 0 || !is_empty(name_saved_hooks))) return nullptr;
    tape = grad == 1;
  }
  Held trace(current_trace());
  Node node;
  Storages storages;
  Results results;
  if (!trace || !check(found, values, count, operands)) return nullptr;
  if (tape && !node.prepare(found, operands.tensors, operands.count, operands.numbers, operands.scalars)) return nullptr;
  if (!storages.take(operands, trace.object) || !results.make(found, trace.object)) return nullptr;
  if (tape) {
    if (!node.finish(results.storages, results.count)) return nullptr;
    for (int i = 0; i < results.count; i++)
      if (!node.attach(results.tensors[i], i)) return nullptr;
  }
  Step step{found, storages.items, operands.count, operands.numbers, operands.scalars, results.storages, results.count, false};
  return record(trace.object, step) ? results.given(found) : nullptr;
}

// The tensor that was written to; null without an error where Python has to do it.
PyObject* written(PyObject* op, PyObject* const* values, Py_ssize_t count, PyObject* fixed) {
  Operands operands;
  PyObject* found = find(op, OP_INPLACE_PLANS, operands, values, count, fixed);
  Held plan(found);
  if (!found || !operands.count || at(found, PLAN_SINGLE) != Py_True) return nullptr;
  PyObject *target = operands.tensors[0], *storage = at(target, TENSOR_STORAGE);
  if (target != values[0] || at(target, TENSOR_META) != Py_None ||
      PyLong_AsLongLong(at(storage, STORAGE_VERSION)) < 0) return nullptr;
  for (int i = 1; i < operands.count; i++)
    if (at(operands.tensors[i], TENSOR_STORAGE) == storage && (operands.tensors[i] != target || at(op, OP_EXCLUSIVE) == Py_True))
      return nullptr;
  PyObject* base = at(target, TENSOR_BASE);
  bool of_graph = operands.grad || (base != Py_None && at(base, TENSOR_REQUIRES_GRAD) == Py_True);
  if (of_graph && mode(name_grad) != 0) return nullptr;
  if (!is_empty(name_differentiating)) return nullptr;
  if (is_written_at_once(storage)) {
    if (write_now(found, operands.tensors, operands.count, operands.numbers, operands.scalars) < 1) return nullptr;
    Py_INCREF(target);
    return target;
  }
  PyObject *geometry = at(target, TENSOR_GEOMETRY), *write = nullptr;
  bool whole = geometry == at(storage, STORAGE_ROOT);
  if (!whole && (overlaps_itself(geometry) || !(write = known_write(target)))) return nullptr;
  Py_XINCREF(write);
  Held writing(write), trace(current_trace());
  if (!trace || !check(found, values, count, operands)) return nullptr;
  Storages storages;
  if (!storages.take(operands, trace.object)) return nullptr;
  Step step{found, storages.items, operands.count, operands.numbers, operands.scalars, &storage, 1, true};
  if (whole) {
    if (!record(trace.object, step)) return nullptr;
  } else {  // what is refused from here on leaves a value that nobody wants
    PyObject *to = PyTuple_GET_ITEM(write, 0), *starts = PyTuple_GET_ITEM(write, 1);
    Held value(new_storage(PyTuple_GET_ITEM(at(found, PLAN_GEOMETRIES), 0), trace.object));
    step.results = &value.object;
    step.writes = false;
    if (!value || !record(trace.object, step)) return nullptr;
    PyObject* both[] = {storage, value.object};
    Step last{to, both, 2, reinterpret_cast<PyTupleObject*>(starts)->ob_item, static_cast<int>(PyTuple_GET_SIZE(starts)),
              &storage, 1, true};
    if (!record(trace.object, last)) return nullptr;
  }
  Py_INCREF(target);
  return target;
}

// `record` of executor.py: (plan, storages, scalars, into, onto).
PyObject* record_step(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  if (!configured) {
    PyErr_SetString(PyExc_RuntimeError, "nothing can be recorded yet");
    return nullptr;
  }
  PyObject *plan = count ? arguments[0] : nullptr, *storages = count > 1 ? arguments[1] : nullptr;
  PyObject *numbers = count > 2 ? arguments[2] : nullptr, *into = count > 3 ? arguments[3] : Py_None;
  bool simple = !names && count >= 2 && count <= 4 && PyType_IsSubtype(Py_TYPE(plan), known.step) &&
                at(plan, PLAN_DEVICE) == known.cpu && (PyList_CheckExact(storages) || PyTuple_CheckExact(storages)) &&
                (!numbers || PyList_CheckExact(numbers) || PyTuple_CheckExact(numbers)) &&
                PyDict_GetItem(known.executor, name_deferred) == Py_True;  // a profiler may switch it off
  Held trace(simple ? current_trace() : nullptr);
  if (trace) {
    PyObject *items[MOST], *given[MOST];
    Py_ssize_t size = PySequence_Fast_GET_SIZE(storages), scalars = numbers ? PySequence_Fast_GET_SIZE(numbers) : 0;
    simple = size <= MOST && scalars <= MOST && (into == Py_None || at(into, STORAGE_HOST) == Py_None);
    for (Py_ssize_t i = 0; simple && i < size; i++) {
      items[i] = PySequence_Fast_GET_ITEM(storages, i);
      simple = Py_TYPE(items[i]) == known.storage;
    }
    for (Py_ssize_t i = 0; simple && i < scalars; i++) {
      given[i] = PySequence_Fast_GET_ITEM(numbers, i);
      simple = PyLong_Check(given[i]) || PyFloat_CheckExact(given[i]);
    }
    Step step{plan, items, static_cast<int>(size), given, static_cast<int>(scalars), &into, 1, true};
    if (simple && into != Py_None && record(trace.object, step)) {
      Py_INCREF(into);
      return into;
    }
    if (simple && into == Py_None && at(plan, PLAN_SINGLE) == Py_True) {
      Held made(new_storage(PyTuple_GET_ITEM(at(plan, PLAN_GEOMETRIES), 0), trace.object));
      step.results = &made.object;
      step.writes = false;
      if (made && record(trace.object, step)) return made.release();
    }
  }
  return PyErr_Occurred() ? nullptr : PyObject_Vectorcall(known.record, arguments, count, names);
}

template <PyObject* (*fast)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)>
PyObject* attempt(PyObject* slow, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  PyObject* values = count > 1 ? arguments[1] : nullptr;
  if (configured && !names && (count == 2 || count == 3) && (PyTuple_CheckExact(values) || PyList_CheckExact(values))) {
    Held held(PyTuple_CheckExact(values) ? nullptr : PySequence_Tuple(values)), nothing(count == 2 ? PyTuple_New(0) : nullptr);
    if (held) values = held.object;
    PyObject* result = PyTuple_CheckExact(values) ? fast(arguments[0], reinterpret_cast<PyTupleObject*>(values)->ob_item, PyTuple_GET_SIZE(values),
                            count == 3 ? arguments[2] : nothing.object) : nullptr;
    if (result || PyErr_Occurred()) return result;
  }
  return PyObject_Vectorcall(slow, arguments, count, names);
}

PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return attempt<recorded>(known.call, arguments, count, names);
}

PyObject* call_inplace(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return attempt<written>(known.call_inplace, arguments, count, names);
}

PyObject* configure(PyObject*, PyObject* arguments) {
  PyObject* classes;
  PyTypeObject** types[] = {&known.op, &known.step, &known.plan, &known.tensor, &known.storage, &known.trace, &known.any_node,
                            &known.node, &known.accumulate, &known.backward, &known.run, &known.instance, &known.size_class,
                            &known.class_of_gradients, &known.trace_program, &known.gradient_class, &known.known_gradients,
                            &known.kernel_function, &known.class_program};
  constexpr Py_ssize_t count = sizeof types / sizeof *types;
  PyObject* given;
  configured = false;
  if (!PyArg_ParseTuple(arguments, "O!O!(OOOOOOOOOOOOOOOOOO)(OOOOOOOOOOOOOOO)(llll)", &PyTuple_Type, &classes, &PyTuple_Type, &given,
                        &known.plain,
                        &known.special, &known.newest_level, &known.threads, &known.modes, &known.cpu, &known.statistics,
                        &known.overwritten, &known.sequence, &known.accumulate_sequence, &known.postponed, &known.on_look, &known.numbers,
                        &known.short_traces, &known.trace_programs, &known.forked, &known.errors, &known.ignored,
                        &known.read, &known.call, &known.call_inplace, &known.record, &known.check_values, &known.accumulator,
                        &known.op_named, &known.write_of, &known.part_of, &known.own, &known.note_trace, &known.backward_of, &known.backward_of_class,
                        &known.executor, &known.host_tier, &known.most_steps, &known.large,
                        &known.kept_elements, &known.writes)) return nullptr;
  if (PyTuple_GET_SIZE(given) != count) {
    PyErr_SetString(PyExc_TypeError, "another number of classes");
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < count; i++) *types[i] = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(given, i));
  Py_INCREF(arguments);  // for good, with all that is in it
  if (!configure_slots(classes)) return nullptr;
  name_anomaly = PyUnicode_InternFromString("anomaly");
  name_differentiating = PyUnicode_InternFromString("differentiating");
  name_saved_hooks = PyUnicode_InternFromString("saved_hooks");
  name_deferred = PyUnicode_InternFromString("DEFERRED");
  name_target_memory();
  configured = true;
  Py_RETURN_NONE;
}

}  // namespace

PyObject* call_op(PyObject* op, PyObject* values, PyObject* fixed) {
  PyObject* result = PyTuple_CheckExact(values)
                         ? recorded(op, reinterpret_cast<PyTupleObject*>(values)->ob_item, PyTuple_GET_SIZE(values), fixed)
                         : nullptr;
  return result || PyErr_Occurred() ? result : PyObject_CallFunctionObjArgs(known.call, op, values, fixed, nullptr);
}

PyObject* call_op(PyObject* op, PyObject* const* values, Py_ssize_t count, PyObject* fixed, bool writes) {
  PyObject* result = writes ? written(op, values, count, fixed) : recorded(op, values, count, fixed);
  if (result || PyErr_Occurred()) return result;
  Held all(tuple_of(values, count));
  return all ? PyObject_CallFunctionObjArgs(writes ? known.call_inplace : known.call, op, all.object, fixed, nullptr) : nullptr;
}

bool is_simple() { return configured && PyList_GET_ITEM(known.special, 0) == zero; }

bool is_off(PyObject* name) { return mode(name) == 0; }

}  // namespace recording

#define FAST(function) \
  reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(recording::function)), METH_FASTCALL | METH_KEYWORDS

PyMethodDef call_methods[] = {
    {"call", FAST(call), "call(op, operands, static=()): see `_call` of ftorch/eager/call/op.py."},
    {"call_inplace", FAST(call_inplace), "call_inplace(op, operands, static=()): see `_call_inplace` there."},
    {"record", FAST(record_step), "record(plan, storages, scalars=(), into=None, onto=None): see executor.py."},
    {"item_of", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(recording::item_of)), METH_FASTCALL,
     "item_of(x, index): the view, or None."},
    {"write_item", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(recording::write_item)), METH_FASTCALL,
     "write_item(x, index, value): whether it was written; a view to be written to; or None."},
    {"as_subclass", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(recording::as_subclass)), METH_FASTCALL,
     "as_subclass(tensor, class): the same tensor as an instance of a subclass."},
    {"know_classes", recording::know_classes, METH_VARARGS, "know_classes(classes that were looked at, those with __torch_dispatch__)."},
    {"number_of", recording::number_of, METH_O, "number_of(tensor): its only element, or None: see `item`."},
    {"run_short", recording::run_short_trace, METH_O, "run_short(trace): whether it was run as a short one: see short_traces.py."},
    {"live", recording::live, METH_VARARGS, "live(trace, owners): (slots, their storages) that are referred to elsewhere."},
    {"walk", recording::walk, METH_VARARGS, "walk(...): see `_run` of ftorch/eager/autograd/backward.py."},
    {"dependencies", recording::dependencies, METH_O, "dependencies(roots): see `_dependencies` there; None: Python has to."},
    {"plan_without_tensors", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(recording::plan_without_tensors)), METH_FASTCALL,
     "plan_without_tensors(op, (types of numbers..., static arguments)): by the call's size class, on the CPU; or None."},
    {"copied_plan", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(recording::copied_plan)), METH_FASTCALL,
     "copied_plan(like, inputs, geometries, instance): see `copied` of ftorch/eager/call/class_plans.py."},
    {"configure_class_plans", recording::configure_class_plans, METH_VARARGS, "Tells `call` what plans of size classes are made of."},
    {"configure_calls", recording::configure, METH_VARARGS, "Tells `call` the classes and the state that it works on."},
    {nullptr, nullptr, 0, nullptr}};

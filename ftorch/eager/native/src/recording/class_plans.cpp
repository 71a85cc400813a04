// Plans of calls whose size class was planned at other sizes, see `of_class` of `ftorch/eager/call/class_plans.py`: whatever
// is not common is refused before anything has been changed, and Python does it.
#include "recording/class_plans.h"

namespace recording {

Classes classes;

namespace {

constexpr int MOST_SYMBOLS = 8;
constexpr int MOST_PLANS = 576;  // of one op that are kept here before Python is asked

PyObject *name_instance, *name_slots, *name_known, *name_result_dtypes, *name_kernel, *name_backend_kernels, *letter_t;
long since_counted = 0;

// The distinct sizes of a call, in the order of their symbols.
struct Sizes {
  long values[MOST_SYMBOLS];
  PyObject* numbers[MOST_SYMBOLS];  // borrowed from the operands' shapes and the static arguments
  int count = 0;

  // What stands for a size in an outline, new; null without an error: there are too many, or it is none.
  PyObject* part(PyObject* number) {
    int overflow;
    const long n = PyLong_AsLongAndOverflow(number, &overflow);
    if (overflow) return nullptr;
    if (n < classes.exact_below) return Py_NewRef(number);
    int i = 0;
    while (i < count && values[i] != n) i++;
    if (i == MOST_SYMBOLS) return nullptr;
    if (i == count) {
      values[count] = n;
      numbers[count++] = number;
    }
    return Py_NewRef(PyTuple_GET_ITEM(classes.symbols, i));
  }
};

bool is_tuple(PyObject* value) { return PyTuple_CheckExact(value) || Py_TYPE(value) == classes.size; }

// Whether a static argument is one of those that stand in keys as they are.
bool is_value(PyObject* value) {
  return value == Py_None || PyBool_Check(value) || PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) ||
         PyComplex_CheckExact(value) || Py_TYPE(value) == classes.dtype || value == known.cpu;
}

// `size_classes.abstract`, new; null perhaps without an error. What Python makes a `Typed` is an equal tuple here.
PyObject* abstract(PyObject* value, Sizes& sizes) {
  if (PyLong_CheckExact(value)) return sizes.part(value);
  if (!is_tuple(value)) return is_value(value) ? PyTuple_Pack(2, Py_TYPE(value), value) : nullptr;
  Held made(PyTuple_New(PyTuple_GET_SIZE(value)));
  for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(value); i++) {
    PyObject* item = abstract(PyTuple_GET_ITEM(value, i), sizes);
    if (!item) return nullptr;
    PyTuple_SET_ITEM(made.object, i, item);
  }
  return made.release();
}

// A call as `class_plans.outline` says it.
struct Outline {
  Held key, inputs;  // the geometries of the tensors
  Sizes sizes;

  // `call`: the key that a plan is found by, whose last part is the static arguments; without tensors it is one for the CPU.
  bool take(PyObject* call, bool has_tensors) {
    const Py_ssize_t operands = PyTuple_GET_SIZE(call) - 1;
    PyObject *fixed = PyTuple_GET_ITEM(call, operands), *geometries[MOST];
    if (!PyTuple_CheckExact(fixed)) return false;
    key.object = PyTuple_New(operands + PyTuple_GET_SIZE(fixed));
    if (!key) return false;
    int count = 0;
    for (Py_ssize_t i = 0; i < operands; i++) {
      PyObject* part = PyTuple_GET_ITEM(call, i);
      if (Py_TYPE(part) != classes.geometry) {
        PyTuple_SET_ITEM(key.object, i, Py_NewRef(part));
        continue;
      }
      if (count == MOST || at(part, GEOMETRY_DEVICE) != known.cpu) return false;
      geometries[count++] = part;
      PyObject* shape = at(part, GEOMETRY_SHAPE);
      PyObject* made = PyTuple_New(PyTuple_GET_SIZE(shape) + 1);
      if (!made) return false;
      PyTuple_SET_ITEM(key.object, i, made);
      PyTuple_SET_ITEM(made, 0, Py_NewRef(at(part, GEOMETRY_DTYPE)));
      for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(shape); d++) {
        PyObject* size = sizes.part(PyTuple_GET_ITEM(shape, d));
        if (!size) return false;
        PyTuple_SET_ITEM(made, d + 1, size);
      }
    }
    if (has_tensors != (count > 0)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fixed); i++) {
      PyObject* part = abstract(PyTuple_GET_ITEM(fixed, i), sizes);
      if (!part) return false;
      PyTuple_SET_ITEM(key.object, operands + i, part);
    }
    inputs.object = tuple_of(geometries, count);
    return static_cast<bool>(inputs);
  }
};

// The key of `Model.cases`, new: nothing, the order of the sizes, or those that stay.
PyObject* case_of(PyObject* model, const Sizes& sizes) {
  enum { FREE, ORDERED, CHANGED };  // as in size_classes.py
  const long level = PyLong_AsLong(at(model, MODEL_LEVEL));
  if (level == FREE) return Py_NewRef(Py_None);
  if (level == ORDERED) {
    Held made(PyTuple_New(sizes.count));
    for (int i = 0; made && i < sizes.count; i++) {
      int rank = 0;  // sizes are distinct
      for (int j = 0; j < sizes.count; j++) rank += sizes.values[j] < sizes.values[i];
      PyObject* place = PyLong_FromLong(i);
      if (!place) return nullptr;
      PyTuple_SET_ITEM(made.object, rank, place);
    }
    return made.release();
  }
  if (level == CHANGED) {
    PyObject* fixed = at(model, MODEL_FIXED);
    Held made(PyTuple_CheckExact(fixed) ? PyTuple_New(PyTuple_GET_SIZE(fixed)) : nullptr);
    for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(fixed); i++) {
      const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(fixed, i));
      if (place < 0 || place >= sizes.count) return nullptr;
      PyTuple_SET_ITEM(made.object, i, Py_NewRef(sizes.numbers[place]));
    }
    return made.release();
  }
  return nullptr;
}

// The shapes of a program's results where each size is a symbol or stays, new; null perhaps without an error: a formula is
// wanted, or a result is empty.
PyObject* shapes_at(PyObject* places, const Sizes& sizes) {
  Held shapes(PyTuple_New(PyTuple_GET_SIZE(places)));
  for (Py_ssize_t i = 0; shapes && i < PyTuple_GET_SIZE(places); i++) {
    PyObject* given = PyTuple_GET_ITEM(places, i);
    PyObject* shape = classes.size->tp_alloc(classes.size, PyTuple_GET_SIZE(given));
    if (!shape) return nullptr;
    PyTuple_SET_ITEM(shapes.object, i, shape);
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(given); d++) {
      PyObject* number = PyTuple_GET_ITEM(given, d);
      const long place = PyLong_AsLong(number);
      if (place == 0 || -1 - place >= sizes.count) return nullptr;
      PyTuple_SET_ITEM(shape, d, Py_NewRef(place > 0 ? number : sizes.numbers[-1 - place]));
    }
    leaf(shape);
  }
  return leaf(shapes.release());
}

// A class at some sizes, new. Null perhaps without an error: its shapes are no plain symbols, or a result is empty.
PyObject* instance_at(PyObject* one, PyObject* program, PyObject* given, const Sizes& sizes) {
  if (Py_TYPE(program) != known.class_program || at(program, CLASS_PROGRAM_PLACES) == Py_None) return nullptr;
  Held kept(Py_NewRef(program)), shapes(shapes_at(at(program, CLASS_PROGRAM_PLACES), sizes));
  Held numbers(shapes ? PyObject_CallOneArg(at(program, CLASS_PROGRAM_EVALUATE), given) : nullptr);
  PyObject* made = numbers ? known.instance->tp_alloc(known.instance, 0) : nullptr;
  if (!made) return nullptr;
  put(made, INSTANCE_OF, one);
  put(made, INSTANCE_SIZES, given);
  put(made, INSTANCE_SHAPES, shapes.object);
  put(made, INSTANCE_NUMBERS, numbers.object);
  put(made, INSTANCE_DTYPE, Py_None);
  put(made, INSTANCE_ADOPTED, Py_None);
  return made;
}

// The class at the sizes of a call, new, see `Model.instance`; null perhaps without an error.
PyObject* instance_of(PyObject* model, const Sizes& sizes) {
  Held given(leaf(tuple_of(sizes.numbers, sizes.count))), which(case_of(model, sizes));
  if (!given || PyErr_Occurred()) return nullptr;
  PyObject* one = which ? PyDict_GetItemWithError(at(model, MODEL_CASES), which.object) : nullptr;
  if (one && Py_TYPE(one) == known.size_class) {
    Held kept(Py_NewRef(one));
    PyObject* made = instance_at(one, at(one, SIZE_CLASS_PROGRAM), given.object, sizes);
    if (made) return made;
  }
  if (PyErr_Occurred()) return nullptr;
  Held made(PyObject_CallMethodOneArg(model, name_instance, given.object));
  return !made || made.object == Py_None ? nullptr : made.release();
}

// `Checks.fresh`, new; of None that itself.
PyObject* fresh_checks(PyObject* checks) {
  if (checks == Py_None) return Py_NewRef(checks);
  PyObject* made = Py_TYPE(checks)->tp_alloc(Py_TYPE(checks), 0);
  if (!made) return nullptr;
  for (int slot = CHECKS_BOUND; slot <= CHECKS_READS; slot++) put(made, static_cast<Slot>(slot), at(checks, static_cast<Slot>(slot)));
  put(made, CHECKS_PASSED, Py_None);
  return made;
}

PyObject* copied(PyObject* like, PyObject* inputs, PyObject* geometries, PyObject* instance) {
  Held backwards(PyDict_New()), none(PyFloat_FromDouble(0)), checks(fresh_checks(at(like, PLAN_CHECKS)));
  PyObject* plan = backwards && none && checks ? Py_TYPE(like)->tp_alloc(Py_TYPE(like), 0) : nullptr;
  if (!plan) return nullptr;
  put(plan, PLAN_CHECKS, checks.object);
  for (int slot = PLAN_CHECKS + 1; slot <= PLAN_INPLACE; slot++) put(plan, static_cast<Slot>(slot), at(like, static_cast<Slot>(slot)));
  for (int slot = PLAN_COMPILED; slot <= PLAN_ACCESS; slot++) put(plan, static_cast<Slot>(slot), Py_None);
  put(plan, PLAN_INPUTS, inputs);
  put(plan, PLAN_GEOMETRIES, geometries);
  put(plan, PLAN_GEOMETRY, PyTuple_GET_ITEM(geometries, 0));
  put(plan, PLAN_INSTANCE, instance);
  put(plan, PLAN_BACKWARDS, backwards.object);
  put(plan, PLAN_SPENT, none.object);
  put(plan, PLAN_RUNS, zero);
  put(plan, PLAN_PINNED, Py_False);
  return plan;
}

// The geometries of gradients, new; null perhaps without an error.
PyObject* geometries_of_gradients(PyObject* shapes, PyObject* dtypes, PyObject* inputs) {
  const Py_ssize_t count = PyTuple_GET_SIZE(shapes);
  Held made(PyTuple_CheckExact(dtypes) && PyTuple_GET_SIZE(dtypes) == count ? PyTuple_New(count) : nullptr);
  for (Py_ssize_t k = 0; made && k < count; k++) {
    PyObject *shape = PyTuple_GET_ITEM(shapes, k), *dtype = PyTuple_GET_ITEM(dtypes, k), *found = nullptr;
    for (Py_ssize_t i = 0; !found && i < PyTuple_GET_SIZE(inputs); i++) {
      PyObject* g = PyTuple_GET_ITEM(inputs, i);
      if (at(g, GEOMETRY_DTYPE) == dtype && is_same_shape(at(g, GEOMETRY_SHAPE), shape) && has_new_stride(g)) found = Py_NewRef(g);
    }
    if (!found) found = contiguous_geometry(shape, dtype);
    if (!found) return nullptr;
    PyTuple_SET_ITEM(made.object, k, found);
  }
  return made.release();
}

// What operand `k` of the gradients of a plan has to be like (borrowed), null if it is a number or there is none.
PyObject* expected_geometry(PyObject* of, PyObject* base, Py_ssize_t k) {
  PyObject *inputs = at(of, GRADIENT_CLASS_INPUTS), *results = at(of, GRADIENT_CLASS_RESULTS);
  const Py_ssize_t first = PyList_GET_SIZE(inputs), saved = first + PyList_GET_SIZE(results);
  const Py_ssize_t numbers = saved + PyUnicode_GET_LENGTH(at(base, PLAN_SCALARS));
  PyObject* list = at(base, k < first ? PLAN_INPUTS : PLAN_GEOMETRIES);
  Py_ssize_t place = -1;
  if (k >= numbers) place = k - numbers;
  else if (k < saved) place = PyLong_AsSsize_t(k < first ? PyList_GET_ITEM(inputs, k) : PyList_GET_ITEM(results, k - first));
  return place >= 0 && PyTuple_CheckExact(list) && place < PyTuple_GET_SIZE(list) ? PyTuple_GET_ITEM(list, place) : nullptr;
}

// `KnownGradients.plan` of derivative_classes.py, new; null perhaps without an error.
PyObject* plan_of_gradients(PyObject* op, PyObject* key) {
  PyObject* definition = at(op, OP_DEFINITION);
  Held says(PyObject_GetAttr(definition, name_known));
  if (!says) PyErr_Clear();
  if (!says || Py_TYPE(says.object) != known.known_gradients) return nullptr;
  PyObject *of = at(says.object, KNOWN_GRADIENTS_OF), *base = at(says.object, KNOWN_GRADIENTS_BASE), *inputs[MOST];
  if (Py_TYPE(of) != known.gradient_class || !PyList_CheckExact(at(of, GRADIENT_CLASS_INPUTS)) ||
      !PyList_CheckExact(at(of, GRADIENT_CLASS_RESULTS)) || at(base, PLAN_DEVICE) != known.cpu) return nullptr;
  const Py_ssize_t operands = PyTuple_GET_SIZE(key) - 1;
  Held kinds(PyTuple_New(operands));
  int count = 0;
  for (Py_ssize_t k = 0; kinds && k < operands; k++) {
    PyObject* part = PyTuple_GET_ITEM(key, k);
    if (Py_TYPE(part) == classes.geometry) {
      PyObject* wanted = expected_geometry(of, base, k);
      if (!wanted || count == MOST || at(part, GEOMETRY_DEVICE) != known.cpu) return nullptr;
      if (part != wanted && (at(part, GEOMETRY_DTYPE) != at(wanted, GEOMETRY_DTYPE) ||
                             !is_same_shape(at(part, GEOMETRY_SHAPE), at(wanted, GEOMETRY_SHAPE)))) return nullptr;
      inputs[count++] = part;
      part = letter_t;
    }
    PyTuple_SET_ITEM(kinds.object, k, Py_NewRef(part));
  }
  PyObject* found = kinds ? PyDict_GetItemWithError(at(of, GRADIENT_CLASS_PLANS), kinds.object) : nullptr;
  PyObject *instance = at(base, PLAN_INSTANCE);
  if (!found || Py_TYPE(instance) != known.instance || at(instance, INSTANCE_ADOPTED) != Py_None) return nullptr;
  PyObject *own = at(found, PLAN_INSTANCE), *one = Py_TYPE(own) == known.instance ? at(own, INSTANCE_OF) : Py_None;
  if (Py_TYPE(one) != known.class_of_gradients || Py_TYPE(at(found, PLAN_RAW)) != known.kernel_function) return nullptr;
  Held like(Py_NewRef(found)), given(Py_NewRef(at(instance, INSTANCE_SIZES))), kept(tuple_of(inputs, count));
  Sizes sizes;
  if (!kept || !PyTuple_CheckExact(given.object) || PyTuple_GET_SIZE(given.object) > MOST_SYMBOLS) return nullptr;
  for (; sizes.count < PyTuple_GET_SIZE(given.object); sizes.count++) sizes.numbers[sizes.count] = PyTuple_GET_ITEM(given.object, sizes.count);
  Held made(instance_at(one, at(one, CLASS_OF_GRADIENTS_PROGRAM), given.object, sizes));
  Held dtypes(made ? PyObject_GetAttr(definition, name_result_dtypes) : nullptr);
  Held geometries(dtypes ? geometries_of_gradients(at(made.object, INSTANCE_SHAPES), dtypes.object, kept.object) : nullptr);
  Held backends(geometries ? PyObject_GetAttr(definition, name_backend_kernels) : nullptr);
  if (!backends || !PyDict_CheckExact(backends.object) || PyDict_GET_SIZE(backends.object)) return nullptr;
  Held kernel(PyObject_GetAttr(definition, name_kernel));
  Held function(kernel ? known.kernel_function->tp_alloc(known.kernel_function, 0) : nullptr);
  Held plan(function ? copied(found, kept.object, geometries.object, made.object) : nullptr);
  if (!plan) return nullptr;
  put(function.object, FUNCTION_KERNEL, kernel.object);
  for (int slot = FUNCTION_SLOTS; slot <= FUNCTION_COUNT; slot++)
    put(function.object, static_cast<Slot>(slot), at(at(found, PLAN_RAW), static_cast<Slot>(slot)));
  replace(plan.object, PLAN_OP, Py_NewRef(op));
  replace(plan.object, PLAN_RAW, Py_NewRef(function.object));
  replace(plan.object, PLAN_FN, Py_NewRef(function.object));
  return plan.release();
}

// Whether a plan's operands and results may be images whose channels come last: see `_layout_of` of derivatives.py.
bool may_be_channels_last(PyObject* plan) {
  PyObject* inputs = at(plan, PLAN_INPUTS);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
    PyObject* g = PyTuple_GET_ITEM(inputs, i);
    PyObject* shape = at(g, GEOMETRY_SHAPE);
    if (PyTuple_GET_SIZE(shape) < 4) continue;
    if (!has_new_stride(g)) return true;
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(shape); d++)
      if (PyLong_AsLong(PyTuple_GET_ITEM(shape, d)) < 2) return true;
  }
  return false;
}

// The class of the derivative of a plan (borrowed), where another plan's of it is known and this one's is like it.
PyObject* gradient_class(PyObject* plan, PyObject* mask) {
  PyObject* instance = at(plan, PLAN_INSTANCE);
  if (Py_TYPE(instance) != known.instance || at(instance, INSTANCE_DTYPE) != Py_None) return nullptr;
  PyObject *one = at(instance, INSTANCE_OF), *found = nullptr;
  if (Py_TYPE(one) == known.size_class) found = PyDict_GetItemWithError(at(one, SIZE_CLASS_BACKWARDS), mask);
  else if (Py_TYPE(one) == known.class_of_gradients) found = PyDict_GetItemWithError(at(one, CLASS_OF_GRADIENTS_BACKWARDS), mask);
  return found && Py_TYPE(found) == known.gradient_class && at(found, GRADIENT_CLASS_FIRST) != Py_None &&
                 at(found, GRADIENT_CLASS_PLAIN) == Py_True && !may_be_channels_last(plan) ? found : nullptr;
}

// Keeps a plan, see `remember` of plan.py, which is called for some of them.
bool remember(PyObject* plans, PyObject* key, PyObject* plan) {
  if (++since_counted >= classes.at_once || PyDict_GET_SIZE(plans) >= MOST_PLANS) {
    since_counted = 0;
    Held done(PyObject_CallFunctionObjArgs(classes.remember, plans, key, plan, nullptr));
    return static_cast<bool>(done);
  }
  if (PyDict_SetItem(plans, key, plan) < 0) return false;
  put(plan, PLAN_TABLE, plans);
  put(plan, PLAN_KEY, key);
  Held done(PyObject_CallOneArg(classes.append, plan));
  return static_cast<bool>(done);
}

// The plan of a call after the model of its class, new; null perhaps without an error.
PyObject* plan_of_model(PyObject* op, PyObject* key, bool has_tensors, bool writes) {
  Outline outline;
  if (!outline.take(key, has_tensors)) return nullptr;
  PyObject* found = PyDict_GetItemWithError(at(op, OP_FOUND), outline.key.object);
  if (!found || Py_TYPE(found) != classes.model || at(found, MODEL_GUARDED) != Py_False) return nullptr;
  PyObject* fixed = PyTuple_GET_ITEM(key, PyTuple_GET_SIZE(key) - 1);
  Held model(Py_NewRef(found)), instance(instance_of(found, outline.sizes));
  if (!instance) return nullptr;
  Held geometries(geometries_of(found, instance.object, outline.inputs.object, fixed));
  if (!geometries || geometries.object == Py_None) return nullptr;
  if (writes && PyTuple_GET_ITEM(geometries.object, 0) != PyTuple_GET_ITEM(outline.inputs.object, 0)) return nullptr;
  Held plan(copied(at(found, MODEL_PLAN), outline.inputs.object, geometries.object, instance.object));
  if (!plan) return nullptr;
  if (at(found, MODEL_REMADE) != Py_None) {
    Held slots(PyObject_CallMethodOneArg(found, name_slots, fixed));
    Held done(slots ? PyObject_CallFunctionObjArgs(at(found, MODEL_REMADE), plan.object, fixed, slots.object, nullptr) : nullptr);
    if (!done) return nullptr;
  }
  if (writes) replace(plan.object, PLAN_INPLACE, Py_NewRef(Py_True));
  return plan.release();
}

}  // namespace

PyObject* plan_of_class(PyObject* op, Slot plans, PyObject* key) {
  PyObject* models = at(op, OP_FOUND);
  if (!classes.model || !PyDict_CheckExact(models)) return nullptr;
  const bool writes = plans == OP_INPLACE_PLANS, has_models = PyDict_GET_SIZE(models) > 0;
  if (!has_models && writes) return nullptr;
  Held plan(has_models ? plan_of_model(op, key, true, writes) : plan_of_gradients(op, key));
  return plan && remember(at(op, plans), key, plan.object) ? plan.release() : nullptr;
}

// The plan of a call without tensors, on the CPU, which is not kept; None: Python has to make it.
PyObject* plan_without_tensors(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || Py_TYPE(arguments[0]) != known.op || !PyTuple_CheckExact(arguments[1]) || !PyTuple_GET_SIZE(arguments[1])) {
    PyErr_SetString(PyExc_TypeError, "plan_without_tensors takes an op and a key");
    return nullptr;
  }
  PyObject* made = classes.model && PyDict_CheckExact(at(arguments[0], OP_FOUND)) ? plan_of_model(arguments[0], arguments[1], false, false) : nullptr;
  return made || PyErr_Occurred() ? made : Py_NewRef(Py_None);
}

PyObject* backward_of(PyObject* plan, PyObject* mask) {
  PyObject* found = gradient_class(plan, mask);
  if (!found) return PyErr_Occurred() ? nullptr : PyObject_CallFunctionObjArgs(known.backward_of, plan, mask, nullptr);
  Held kept(Py_NewRef(found)), made(PyObject_CallFunctionObjArgs(known.backward_of_class, plan, found, nullptr));
  return made && PyDict_SetItem(at(plan, PLAN_BACKWARDS), mask, made.object) == 0 ? made.release() : nullptr;
}

PyObject* copied_plan(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count == 4 && PyType_IsSubtype(Py_TYPE(arguments[0]), known.plan) && PyTuple_Check(arguments[2]) &&
      PyTuple_GET_SIZE(arguments[2]))
    return copied(arguments[0], arguments[1], arguments[2], arguments[3]);
  PyErr_SetString(PyExc_TypeError, "copied_plan takes a plan, geometries of its operands, geometries of its results, an instance");
  return nullptr;
}

PyObject* configure_class_plans(PyObject*, PyObject* arguments) {
  PyObject *types[4], **functions[] = {&classes.symbols, &classes.interned, &classes.sweep_at, &classes.make_geometry,
                                       &classes.result_geometries, &classes.remember, &classes.append};
  classes.model = nullptr;
  if (!PyArg_ParseTuple(arguments, "(O!O!O!O!)O!O!O!OOOO(lll)", &PyType_Type, &types[0], &PyType_Type, &types[1], &PyType_Type, &types[2],
                        &PyType_Type, &types[3], &PyTuple_Type, functions[0], &PyDict_Type, functions[1], &PyList_Type, functions[2],
                        functions[3], functions[4], functions[5], functions[6], &classes.exact_below, &classes.unchecked,
                        &classes.at_once)) return nullptr;
  if (PyTuple_GET_SIZE(classes.symbols) != MOST_SYMBOLS) {
    PyErr_SetString(PyExc_ValueError, "another number of symbols");
    return nullptr;
  }
  Py_INCREF(arguments);  // for good, with all that is in it
  name_instance = PyUnicode_InternFromString("instance");
  name_slots = PyUnicode_InternFromString("slots");
  name_known = PyUnicode_InternFromString("known");
  name_result_dtypes = PyUnicode_InternFromString("result_dtypes");
  name_kernel = PyUnicode_InternFromString("kernel");
  name_backend_kernels = PyUnicode_InternFromString("backend_kernels");
  letter_t = PyUnicode_InternFromString("t");
  PyTypeObject** to[] = {&classes.size, &classes.geometry, &classes.dtype, &classes.model};
  for (int i = 0; i < 4; i++) *to[i] = reinterpret_cast<PyTypeObject*>(types[i]);
  Py_RETURN_NONE;
}

}  // namespace recording

// Steps recorded in the thread's trace, in C: what `ftorch/eager/runtime/executor.py`, `call/op.py` and
// `autograd/tape.py` do where nothing is special. Whatever is not common is refused before anything has been changed,
// and Python does it.
#pragma once

#include "module.h"

namespace recording {

enum Slot {
  OP_PLANS, OP_INPLACE_PLANS, OP_ALTERNATIVE, OP_EXCLUSIVE, OP_FOUND, OP_DEFINITION,
  // Of a plan: what others of its class have, too; what none has that did not run; the rest.
  PLAN_CHECKS, PLAN_DIFFERENTIABLE, PLAN_RESULT_TYPE, PLAN_DEVICE, PLAN_SINGLE, PLAN_SCALARS, PLAN_FN, PLAN_RAW, PLAN_STRUCTURE,
  PLAN_STATIC, PLAN_NAME, PLAN_OP, PLAN_ELEMENT, PLAN_SCALAR_TYPES, PLAN_INPLACE,
  PLAN_COMPILED, PLAN_BACKWARD, PLAN_EXTRA, PLAN_HOST, PLAN_PROGRAM, PLAN_WRITES, PLAN_COMPILING, PLAN_ACCESS,
  PLAN_INPUTS, PLAN_GEOMETRIES, PLAN_GEOMETRY, PLAN_INSTANCE, PLAN_BACKWARDS, PLAN_SPENT, PLAN_RUNS, PLAN_PINNED, PLAN_TABLE, PLAN_KEY,
  MODEL_PLAN, MODEL_LEVEL, MODEL_FIXED, MODEL_CASES, MODEL_BASIC, MODEL_FOLLOWS, MODEL_DTYPES, MODEL_REMADE, MODEL_GUARDED,
  INSTANCE_OF, INSTANCE_SIZES, INSTANCE_SHAPES, INSTANCE_NUMBERS, INSTANCE_DTYPE, INSTANCE_ADOPTED,
  SIZE_CLASS_PROGRAM, SIZE_CLASS_BACKWARDS, CLASS_OF_GRADIENTS_PROGRAM, CLASS_OF_GRADIENTS_BACKWARDS,
  GRADIENT_CLASS_INPUTS, GRADIENT_CLASS_RESULTS, GRADIENT_CLASS_FIRST, GRADIENT_CLASS_PLANS, GRADIENT_CLASS_PLAIN,
  KNOWN_GRADIENTS_OF, KNOWN_GRADIENTS_BASE, FUNCTION_KERNEL, FUNCTION_SLOTS, FUNCTION_CASTS, FUNCTION_NUMBERS, FUNCTION_KEYWORDS,
  FUNCTION_COUNT, TRACE_PROGRAM_FUNCTION, TRACE_PROGRAM_KINDS, CLASS_PROGRAM_PLACES, CLASS_PROGRAM_EVALUATE,
  BACKWARD_OP, BACKWARD_MASK, BACKWARD_WANTED, BACKWARD_SAVED, BACKWARD_DIFFERENTIABLE, BACKWARD_NODE_CLASS, BACKWARD_FIRST,
  NODE_EDGES, NODE_SEQUENCE, NODE_TENSOR_HOOKS, NODE_PRE_HOOKS, NODE_POST_HOOKS, NODE_METADATA, NODE_TRACE,
  NODE_BACKWARD, NODE_SAVED, NODE_SCALARS, NODE_DETACHED,
  TENSOR_STORAGE, TENSOR_GEOMETRY, TENSOR_OFFSET, TENSOR_REQUIRES_GRAD, TENSOR_GRAD_FN, TENSOR_OUTPUT_NR, TENSOR_GRAD,
  TENSOR_BASE, TENSOR_ATTR_VERSION, TENSOR_META,
  STORAGE_ARRAY, STORAGE_TRACE, STORAGE_SLOT, STORAGE_ROOT, STORAGE_VERSION, STORAGE_HOST, STORAGE_ERROR,
  STORAGE_EXTRA, STORAGE_LEVEL,
  GEOMETRY_SHAPE, GEOMETRY_STRIDE, GEOMETRY_NUMEL, GEOMETRY_DTYPE, GEOMETRY_DEVICE, GEOMETRY_BITS, GEOMETRY_CONTIGUOUS,
  GEOMETRY_READS, GEOMETRY_VIEWS, GEOMETRY_NDIM, GEOMETRY_DENSE, GEOMETRY_EXPANSE, GEOMETRY_ZERO_DIM,
  LAYOUT_READS, LAYOUT_WRITES,
  TRACE_LOCK, TRACE_CODE, TRACE_OWNERS, TRACE_INPUTS, TRACE_INPUT_OF, TRACE_INTS, TRACE_FLOATS, TRACE_STEPS, TRACE_BIRTH,
  TRACE_REPLACED, TRACE_RECORDING, TRACE_RUNNING, TRACE_DEVICE,
  CHECKS_BOUND, CHECKS_NOTICES, CHECKS_BOUNDS, CHECKS_READS, CHECKS_PASSED,
  RUN_CONTENT, RUN_LIVE, RUN_KEEP, RUN_FINISHED, RUN_AROUND, RUN_OVER, SHORT_SEEN, SHORT_RUN, SHORT_KINDS,
  STATS_OPS, STATS_PROGRAMS, EXTRAS_HOOKS, EXTRAS_ACCUMULATOR, EXTRAS_COUNTER, COUNTER_VERSION, ACCUMULATE_VARIABLE, SLOTS
};

extern Py_ssize_t offsets[SLOTS];

// What `configure` was given.
struct Known {
  PyTypeObject *op, *step, *plan, *tensor, *storage, *trace, *any_node, *node, *accumulate, *backward, *run;
  PyTypeObject *instance, *size_class, *class_of_gradients, *trace_program, *gradient_class, *known_gradients, *kernel_function, *class_program;
  PyObject *plain;                                   // the set of classes without overrides
  PyObject *special, *newest_level, *threads, *modes, *cpu, *statistics, *overwritten, *sequence;
  PyObject *accumulate_sequence, *postponed, *on_look, *numbers;  // the last: dtypes whose elements are NumPy's own
  PyObject *read, *call, *call_inplace, *record, *check_values, *accumulator, *op_named, *write_of, *part_of, *own;  // functions in Python
  PyObject *executor, *host_tier;  // the dictionaries of executor.py and host_tier.py
  PyObject *short_traces, *trace_programs, *forked;  // functions of traces, and of all that differ in sizes only
  PyObject *errors, *ignored;              // NumPy's variable for errors and its value without
  PyObject *note_trace, *backward_of, *backward_of_class;  // of short_traces.py, tape.py and derivatives.py
  long most_steps, large, kept_elements, writes;  // the last: whether memory is written to at once
};
extern Known known;
extern PyObject *zero, *name_grad, *name_inference;

int mode(PyObject* name);  // whether a mode of the calling thread is on: 1, 0, or -1 for what is neither

inline PyObject*& at(PyObject* object, Slot slot) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offsets[slot]);
}

inline void put(PyObject* object, Slot slot, PyObject* value) {  // of an object that is new: there is nothing to let go of
  Py_INCREF(value);
  at(object, slot) = value;
}

// How often a tensor was written to (borrowed), see `counter_of` of `ftorch/eager/tensor.py`.
inline PyObject* version_of(PyObject* t) {
  PyObject *meta = at(t, TENSOR_META), *counter = meta == Py_None ? Py_None : at(meta, EXTRAS_COUNTER);
  return counter == Py_None ? at(at(t, TENSOR_STORAGE), STORAGE_VERSION) : at(counter, COUNTER_VERSION);
}

inline void replace(PyObject* object, Slot slot, PyObject* value) {  // takes over the reference
  PyObject* old = at(object, slot);
  at(object, slot) = value;
  Py_XDECREF(old);
}

// A reference that is given back at the end of the scope.
struct Held {
  PyObject* object;
  explicit Held(PyObject* object = nullptr) : object(object) {}
  ~Held() { Py_XDECREF(object); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  explicit operator bool() const { return object != nullptr; }
  PyObject* release() {
    PyObject* given = object;
    object = nullptr;
    return given;
  }
};

constexpr int MOST = 16;  // operands of a step that is recorded here
constexpr int MOST_RESULTS = 8;

bool is_plain(PyTypeObject* type);
// Subclasses with a `__torch_function__`: what a tensor's class is, and whether calls in this thread are not for it to answer,
// so that its tensors are plain ones here. False for classes that Python has not looked at yet.
bool has_say(PyTypeObject* type);
bool is_plain_now(PyTypeObject* type);
bool is_number(PyObject* value, long number);  // whether an attribute is this small integer

// The calling thread's trace for the CPU (a new reference); null if it is none that steps are simply appended to.
PyObject* current_trace();

PyObject* new_storage(PyObject* geometry, PyObject* trace);
PyObject* new_tensor(PyObject* storage);
PyObject* as_subclass(PyObject*, PyObject* const* arguments, Py_ssize_t count);
PyObject* know_classes(PyObject*, PyObject* arguments);

// Whether a tensor is a plain one of which neither graphs nor transforms know anything.
bool is_free(PyObject* tensor);
// A view of such a tensor: its geometry, and how far its first element is from the tensor's.
PyObject* view_of(PyObject* tensor, PyObject* geometry, Py_ssize_t delta);

struct Step {
  PyObject* plan;
  PyObject* const* storages;
  int count;
  PyObject* const* numbers;
  int scalars;
  PyObject* const* results;  // new storages; or the one that is written to
  int made;
  bool writes;
};

// Appends a step to a trace. False, with an error or without: it was not, and new storages of results are void.
bool record(PyObject* trace, const Step& step);

// The storage whose root a tensor is (a new reference); null, perhaps without an error: it cannot be had here.
PyObject* storage_of(PyObject* tensor, PyObject* trace);

// How a view is written to (borrowed): (plan, starts) as `op.py` keeps them; null: not known yet.
PyObject* known_write(PyObject* tensor);

// The node of a call in the making.
struct Node {
  Held node, saved;
  PyObject* differentiable = nullptr;  // of the results, borrowed from `backward`
  Held backward;

  // False, with an error or without: Python has to do it.
  bool prepare(PyObject* plan, PyObject* const* tensors, int count, PyObject* const* numbers, int scalars);
  // Fills in what is kept of results. False with an error.
  bool finish(PyObject* const* storages, int made);
  // Makes a result's tensor an output of the node.
  bool attach(PyObject* tensor, int number);
};

bool configure_slots(PyObject* classes);

// The results of an op, recorded here or by Python; values and static arguments are tuples.
PyObject* call_op(PyObject* op, PyObject* values, PyObject* fixed);
// The same of an array of values; `writes`: the result is written into the first.
PyObject* call_op(PyObject* op, PyObject* const* values, Py_ssize_t count, PyObject* fixed, bool writes);
PyObject* tuple_of(PyObject* const* values, Py_ssize_t count);
bool is_simple();  // whether calls go to nobody but the engine: no modes, levels or hooks
bool is_off(PyObject* mode);  // of the calling thread

// The plan of a call whose size class was planned at other sizes, new and kept among an op's plans; null, perhaps without an
// error: Python has to make it. See class_plans.cpp.
PyObject* plan_of_class(PyObject* op, Slot plans, PyObject* key);
// The derivative of a plan for a mask, new and kept with the plan; null with an error.
PyObject* backward_of(PyObject* plan, PyObject* mask);
PyObject* plan_without_tensors(PyObject*, PyObject* const* arguments, Py_ssize_t count);
PyObject* copied_plan(PyObject*, PyObject* const* arguments, Py_ssize_t count);
PyObject* configure_class_plans(PyObject*, PyObject* arguments);

// The engine, see recorded_backward.cpp.
PyObject* walk(PyObject*, PyObject* arguments);
PyObject* dependencies(PyObject*, PyObject* roots);

// Whether the values that a plan's checks look at are known and small in number, and pass: see value_bounds.cpp.
bool are_within(PyObject* checks, PyObject* const* tensors, int count, PyObject* const* numbers, int scalars);

// Runs what a trace holds, with the trace's lock, if it is short and has a function: see short_runs.cpp. 1: done; 0: it is
// for Python to run; -1 with an error.
int run_short(PyObject* trace);
PyObject* run_short_trace(PyObject*, PyObject* trace);

// Python's `item`, for a tensor whose value is simply there or pending; None for any other.
PyObject* number_of(PyObject*, PyObject* tensor);
PyObject* live(PyObject*, PyObject* arguments);

}  // namespace recording

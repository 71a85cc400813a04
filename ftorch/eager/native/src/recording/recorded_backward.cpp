// The engine's walk through a graph, see `_run` of `ftorch/eager/autograd/backward.py`: which node runs next, its
// gradients, and the backward of ops' nodes. Other nodes, hooks and whatever is not common are Python's.
#include <algorithm>
#include <queue>
#include <vector>

#include "recording/recording.h"

namespace recording {

namespace {

PyObject *name_width, *name_release, *name_take, *name_sequence;

struct Item {
  long long sequence;
  long long order;  // of equal ones (leaves) the first comes first: the same order in every step, one program
  PyObject* node;   // held
  bool operator<(const Item& other) const {
    return sequence != other.sequence ? sequence < other.sequence : order > other.order;
  }
};

struct Walk {
  PyObject *counts, *buffers, *needed, *by_node, *captures;  // the last three may be None
  PyObject *apply, *run_hooks, *add;
  bool retain, is_bare;  // whether leaves without hooks take their gradients themselves
  std::priority_queue<Item> heap;
  long long order = 0;

  ~Walk() {
    for (; !heap.empty(); heap.pop()) Py_DECREF(heap.top().node);
  }

  bool push(PyObject* node) {
    Held sequence(PyObject_GetAttr(node, name_sequence));
    if (!sequence) return false;
    long long value = PyLong_AsLongLong(sequence.object);
    if (value == -1 && PyErr_Occurred()) return false;
    Py_INCREF(node);
    heap.push({value, order++, node});
    return true;
  }

  int is_needed(PyObject* node) { return needed == Py_None ? 1 : PySet_Contains(needed, node); }
  bool step(PyObject* node);
  bool capture(PyObject* wanted, PyObject* grads);
  int goes_on(PyObject* node);
  bool pass_on(PyObject* node, PyObject* outputs);
  bool add_to(PyObject* target, PyObject* nr, PyObject* grad);
};

bool has_any(PyObject* node, Slot slot) {
  PyObject* held = at(node, slot);
  return held && held != Py_None && !(PyDict_CheckExact(held) && !PyDict_GET_SIZE(held));
}

// A saved tensor as `unpack` gives it where no graph is made; null without an error: Python has to.
PyObject* unpacked(PyObject* saved, PyObject* edge) {
  if (!PyTuple_CheckExact(saved)) return nullptr;
  PyObject *storage = PyTuple_GET_ITEM(saved, 0), *geometry = PyTuple_GET_ITEM(saved, 1), *variable = nullptr;
  PyObject* from = edge && edge != Py_None ? PyTuple_GET_ITEM(edge, 0) : nullptr;
  if (from && (!PyType_IsSubtype(Py_TYPE(from), known.any_node) || at(from, NODE_DETACHED))) return nullptr;
  if (from && Py_TYPE(from) == known.accumulate)
    variable = at(from, ACCUMULATE_VARIABLE);
  else if (PyTuple_GET_SIZE(saved) != 4)
    return nullptr;
  PyObject *now = variable ? version_of(variable) : at(storage, STORAGE_VERSION), *version = PyTuple_GET_ITEM(saved, 3);
  if (now != version && PyLong_AsLongLong(now) != PyLong_AsLongLong(version)) return nullptr;
  if (variable) return Py_NewRef(variable);
  PyObject* t = new_tensor(storage);
  if (t && geometry != at(storage, STORAGE_ROOT)) {
    Py_INCREF(geometry);
    replace(t, TENSOR_GEOMETRY, geometry);
    PyObject* offset = PyTuple_GET_ITEM(saved, 2);
    Py_INCREF(offset);
    replace(t, TENSOR_OFFSET, offset);
    Py_INCREF(now);
    replace(t, TENSOR_ATTR_VERSION, now);
  }
  return t;
}

// `OpNode.apply`: gradients for the node's edges. Null without an error: Python has to.
PyObject* applied(PyObject* node, PyObject* grads, PyObject* needed) {
  if (Py_TYPE(node)->tp_base != known.node || has_any(node, NODE_PRE_HOOKS) || has_any(node, NODE_POST_HOOKS)) return nullptr;
  PyObject *backward = at(node, NODE_BACKWARD), *saved = at(node, NODE_SAVED), *edges = at(node, NODE_EDGES);
  PyObject* scalars = at(node, NODE_SCALARS);
  bool listed = saved && (PyList_CheckExact(saved) || PyTuple_CheckExact(saved));
  if (!listed || !backward || !scalars || !edges || Py_TYPE(backward) != known.backward || !PyList_CheckExact(scalars) ||
      !PyTuple_CheckExact(edges)) return nullptr;
  PyObject *places = at(backward, BACKWARD_SAVED), *wanted = at(backward, BACKWARD_WANTED), *op = at(backward, BACKWARD_OP);
  for (Py_ssize_t k = 0; needed != Py_None && PyList_GET_SIZE(wanted) > 1 && k < PyList_GET_SIZE(wanted); k++) {
    Py_ssize_t i = PyLong_AsSsize_t(PyList_GET_ITEM(wanted, k));
    PyObject* edge = i < PyTuple_GET_SIZE(edges) ? PyTuple_GET_ITEM(edges, i) : Py_None;
    if (edge == Py_None || PySet_Contains(needed, PyTuple_GET_ITEM(edge, 0)) != 1) return nullptr;  // see `_for_needed`
  }
  Py_ssize_t count = PySequence_Fast_GET_SIZE(saved), numbers = PyList_GET_SIZE(scalars), given = PyList_GET_SIZE(grads);
  if (PyList_GET_SIZE(places) != count) return nullptr;
  bool any = false;
  for (Py_ssize_t k = 0; k < given; k++) any |= PyList_GET_ITEM(grads, k) != Py_None;
  if (!any) return nullptr;
  Held values(PyTuple_New(count + numbers + given)), nothing(PyTuple_New(0));
  if (!values || !nothing) return nullptr;
  for (Py_ssize_t k = 0; k < count; k++) {
    Py_ssize_t i = PyLong_AsSsize_t(PyList_GET_ITEM(places, k));
    PyObject* t = unpacked(PySequence_Fast_GET_ITEM(saved, k), i >= 0 ? PyTuple_GET_ITEM(edges, i) : nullptr);
    if (!t) return nullptr;
    PyTuple_SET_ITEM(values.object, k, t);
  }
  for (Py_ssize_t k = 0; k < numbers + given; k++) {
    PyObject* value = k < numbers ? PyList_GET_ITEM(scalars, k) : PyList_GET_ITEM(grads, k - numbers);
    Py_INCREF(value);
    PyTuple_SET_ITEM(values.object, count + k, value);
  }
  Held out(call_op(op, values.object, nothing.object)), spread(out ? PyList_New(PyTuple_GET_SIZE(edges)) : nullptr);
  if (!spread) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(edges); i++) {
    Py_INCREF(Py_None);
    PyList_SET_ITEM(spread.object, i, Py_None);
  }
  bool many = PyTuple_CheckExact(out.object);
  Py_ssize_t made = many ? PyTuple_GET_SIZE(out.object) : 1;
  for (Py_ssize_t k = 0; k < made && k < PyList_GET_SIZE(wanted); k++) {
    PyObject* item = many ? PyTuple_GET_ITEM(out.object, k) : out.object;
    Py_INCREF(item);
    if (PyList_SetItem(spread.object, PyLong_AsSsize_t(PyList_GET_ITEM(wanted, k)), item) < 0) return nullptr;
  }
  return spread.release();
}

// The gradients of a node's outputs as a list, None where there is none.
PyObject* as_list(PyObject* node, PyObject* buffer) {
  Py_ssize_t width = 0, position = 0;
  PyObject* backward = Py_TYPE(node)->tp_base == known.node ? at(node, NODE_BACKWARD) : nullptr;
  if (backward && Py_TYPE(backward) == known.backward) {
    width = PyTuple_GET_SIZE(at(backward, BACKWARD_DIFFERENTIABLE));
  } else {
    Held found(PyObject_GetAttr(node, name_width));
    width = found ? PyLong_AsSsize_t(found.object) : -1;
    if (width < 0 && PyErr_Occurred()) return nullptr;
  }
  PyObject *key, *grad;
  while (PyDict_Next(buffer, &position, &key, &grad)) width = std::max(width, PyLong_AsSsize_t(key) + 1);
  PyObject* grads = PyList_New(width);
  if (!grads) return nullptr;
  for (Py_ssize_t i = 0; i < width; i++) {
    Py_INCREF(Py_None);
    PyList_SET_ITEM(grads, i, Py_None);
  }
  for (position = 0; PyDict_Next(buffer, &position, &key, &grad);) {
    Py_INCREF(grad);
    PyList_SetItem(grads, PyLong_AsSsize_t(key), grad);
  }
  return grads;
}

bool Walk::add_to(PyObject* target, PyObject* nr, PyObject* grad) {
  PyObject* held = PyDict_GetItemWithError(buffers, target);
  if (!held) {
    if (PyErr_Occurred()) return false;
    Held fresh(PyDict_New());
    return fresh && PyDict_SetItem(fresh.object, nr, grad) == 0 && PyDict_SetItem(buffers, target, fresh.object) == 0;
  }
  PyObject* before = PyDict_GetItemWithError(held, nr);
  if (!before && PyErr_Occurred()) return false;
  if (before && grad == Py_None) return true;
  if (!before || before == Py_None) return PyDict_SetItem(held, nr, grad) == 0;
  Held sum(PyObject_CallFunctionObjArgs(add, before, grad, nullptr));
  return sum && PyDict_SetItem(held, nr, sum.object) == 0;
}

// Hands gradients to the nodes behind a node's edges, of which the last to come makes its node run.
bool Walk::pass_on(PyObject* node, PyObject* outputs) {
  Held edges(at(node, NODE_EDGES));
  Py_XINCREF(edges.object);
  if (!edges || !PyTuple_CheckExact(edges.object)) return PyErr_Format(PyExc_TypeError, "a node's edges are no tuple"), false;
  Held listed(outputs ? PySequence_Fast(outputs, "gradients are a sequence") : nullptr);
  if (outputs && !listed) return false;
  Py_ssize_t made = listed ? PySequence_Fast_GET_SIZE(listed.object) : 0;
  PyObject* backward = Py_TYPE(node)->tp_base == known.node ? at(node, NODE_BACKWARD) : nullptr;
  PyObject* leading = backward && Py_TYPE(backward) == known.backward ? at(backward, BACKWARD_FIRST) : nullptr;
  Py_ssize_t first = leading && leading != Py_None ? PyLong_AsSsize_t(leading) : -1;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(edges.object); k++) {
    Py_ssize_t i = k > first ? k : k ? k - 1 : std::max<Py_ssize_t>(first, 0);  // the first one comes before the others
    PyObject* edge = PyTuple_GET_ITEM(edges.object, i);
    if (edge == Py_None) continue;
    PyObject *target = PyTuple_GET_ITEM(edge, 0), *grad = i < made ? PySequence_Fast_GET_ITEM(listed.object, i) : Py_None;
    if (outputs) {  // a node that ran gives undefined gradients, too: what is behind it runs all the same
      int wanted = is_needed(target);
      if (wanted < 0 || (wanted && !add_to(target, PyTuple_GET_ITEM(edge, 1), grad))) return false;
    }
    PyObject* count = PyDict_GetItemWithError(counts, target);
    if (!count) return PyErr_Occurred() || PyErr_Format(PyExc_RuntimeError, "a node has come to the graph"), false;
    long left = PyLong_AsLong(count) - 1;
    Held number(PyLong_FromLong(left));
    if (!number || PyDict_SetItem(counts, target, number.object) < 0 || (!left && !push(target))) return false;
  }
  return true;
}

// Notes the gradients that the caller asked for.
bool Walk::capture(PyObject* wanted, PyObject* grads) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(wanted); i++) {
    PyObject* edge = PyList_GET_ITEM(wanted, i);
    Py_ssize_t nr = PyLong_AsSsize_t(PyTuple_GET_ITEM(edge, 1));
    if (PyDict_SetItem(captures, edge, nr < PyList_GET_SIZE(grads) ? PyList_GET_ITEM(grads, nr) : Py_None) < 0) return false;
  }
  return true;
}

// Whether a node at which the caller asked for gradients leads to others; -1 with an error.
int Walk::goes_on(PyObject* node) {
  if (PyType_IsSubtype(Py_TYPE(node), known.accumulate)) return 0;
  PyObject* edges = at(node, NODE_EDGES);
  int found = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(edges) && !found; i++) {
    PyObject* edge = PyTuple_GET_ITEM(edges, i);
    found = edge == Py_None ? 0 : is_needed(PyTuple_GET_ITEM(edge, 0));
  }
  return found;
}

bool Walk::step(PyObject* node) {
  Held buffer(PyDict_GetItemWithError(buffers, node)), outputs;
  Py_XINCREF(buffer.object);
  if (buffer ? PyDict_DelItem(buffers, node) < 0 : PyErr_Occurred() != nullptr) return false;
  int wanted = buffer ? is_needed(node) : 0;
  if (wanted < 0) return false;
  bool runs = wanted == 1;
  if (runs && needed == Py_None && is_bare && Py_TYPE(node) == known.accumulate && !has_any(node, NODE_TENSOR_HOOKS) &&
      !has_any(node, NODE_PRE_HOOKS) && !has_any(node, NODE_POST_HOOKS)) {
    Held done(PyObject_CallMethodOneArg(node, name_take, buffer.object));
    return static_cast<bool>(done);
  }
  if (runs) {
    Held grads(as_list(node, buffer.object));
    if (!grads) return false;
    PyDict_Clear(buffer.object);  // a leaf may take over what nobody else holds
    PyObject* caught = by_node == Py_None ? nullptr : PyDict_GetItemWithError(by_node, node);
    if (!caught && PyErr_Occurred()) return false;
    if (caught) {
      int further = goes_on(node);
      if (further < 0) return false;
      runs = further == 1;
    }
    if (caught && runs && !capture(caught, grads.object)) return false;  // what a hook makes of it is for the nodes behind
    if (has_any(node, NODE_TENSOR_HOOKS)) {
      Held done(PyObject_CallFunctionObjArgs(run_hooks, node, grads.object, nullptr));
      if (!done) return false;
    }
    if (caught && !runs && !capture(caught, grads.object)) return false;
    if (runs) {
      outputs.object = is_bare && is_off(name_grad) ? applied(node, grads.object, needed) : nullptr;
      if (!outputs && PyErr_Occurred()) return false;
      if (!outputs) outputs.object = PyObject_CallFunctionObjArgs(apply, node, grads.object, nullptr);
      if (!outputs) return false;
    }
  }
  if (!retain && runs) {
    if (PyObject* saved = Py_TYPE(node)->tp_base == known.node ? at(node, NODE_SAVED) : nullptr) {
      bool nothing = PyTuple_CheckExact(saved) && !PyTuple_GET_SIZE(saved);  // what saved nothing can run again
      PyObject* numbers = nothing ? at(node, NODE_SCALARS) : nullptr;
      if (numbers && PyList_CheckExact(numbers) && PyList_GET_SIZE(numbers)) {  // but for some ops with numbers
        Held done(PyObject_CallMethodNoArgs(node, name_release));
        if (!done) return false;
      } else if (!nothing && saved != Py_None) {
        Py_INCREF(Py_None);
        replace(node, NODE_SAVED, Py_None);
      }
    } else {
      Held done(PyObject_CallMethodNoArgs(node, name_release));
      if (!done) return false;
    }
  }
  return pass_on(node, outputs.object);
}

}  // namespace

// walk(start, counts, buffers, retain_graph, is_bare, needed, by_node, captures, apply, run_hooks, add)
PyObject* walk(PyObject*, PyObject* arguments) {
  Walk one;
  PyObject* start;
  int retain, is_bare;
  if (!PyArg_ParseTuple(arguments, "O!O!O!ppOOOOOO", &PyList_Type, &start, &PyDict_Type, &one.counts, &PyDict_Type,
                        &one.buffers, &retain, &is_bare, &one.needed, &one.by_node, &one.captures, &one.apply, &one.run_hooks, &one.add))
    return nullptr;
  if (!name_width) {
    name_width = PyUnicode_InternFromString("_ftorch_width");
    name_release = PyUnicode_InternFromString("_ftorch_release");
    name_take = PyUnicode_InternFromString("take");
    name_sequence = PyUnicode_InternFromString("_ftorch_sequence");
  }
  one.retain = retain;
  one.is_bare = is_bare;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(start); i++) {
    int reached = PyDict_Contains(one.counts, PyList_GET_ITEM(start, i));
    if (reached < 0 || (!reached && !one.push(PyList_GET_ITEM(start, i)))) return nullptr;
  }
  while (!one.heap.empty()) {
    Held node(one.heap.top().node);
    one.heap.pop();
    if (PyErr_CheckSignals() < 0 || !one.step(node.object)) return nullptr;
  }
  Py_RETURN_NONE;
}

// dependencies(roots): {node: how many edges from reachable nodes lead to it}.
PyObject* dependencies(PyObject*, PyObject* roots) {
  Held counts(PyDict_New()), seen(PySet_New(roots)), stack(PySequence_List(roots));
  if (!counts || !seen || !stack) return nullptr;
  while (PyList_GET_SIZE(stack.object)) {
    Py_ssize_t last = PyList_GET_SIZE(stack.object) - 1;
    Held node(PyList_GET_ITEM(stack.object, last));
    Py_INCREF(node.object);
    if (PyList_SetSlice(stack.object, last, last + 1, nullptr) < 0) return nullptr;
    Held edges(PyType_IsSubtype(Py_TYPE(node.object), known.any_node) ? at(node.object, NODE_EDGES) : nullptr);
    Py_XINCREF(edges.object);
    if (!edges || !PyTuple_CheckExact(edges.object)) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(edges.object); i++) {
      PyObject* edge = PyTuple_GET_ITEM(edges.object, i);
      if (edge == Py_None) continue;
      PyObject* target = PyTuple_GET_ITEM(edge, 0);
      PyObject* before = PyDict_GetItemWithError(counts.object, target);
      if (!before && PyErr_Occurred()) return nullptr;
      Held count(PyLong_FromLong(before ? PyLong_AsLong(before) + 1 : 1));
      if (!count || PyDict_SetItem(counts.object, target, count.object) < 0) return nullptr;
      int known_node = PySet_Contains(seen.object, target);
      if (known_node < 0 || (!known_node && (PySet_Add(seen.object, target) < 0 || PyList_Append(stack.object, target) < 0)))
        return nullptr;
    }
  }
  return counts.release();
}

}  // namespace recording

// The geometries of results at sizes that are new, see `result_geometries` of `ftorch/eager/call/class_plans.py`.
#include <utility>

#include "recording/class_plans.h"

namespace recording {

namespace {

constexpr int MOST_RANK = 8;

PyObject* contiguous_stride(PyObject* shape) {
  Py_ssize_t rank = PyTuple_GET_SIZE(shape);
  long step = 1;
  Held made(PyTuple_New(rank));
  for (Py_ssize_t d = rank - 1; made && d >= 0; d--) {
    PyObject* number = PyLong_FromLong(step);
    if (!number) return nullptr;
    PyTuple_SET_ITEM(made.object, d, number);
    const long size = PyLong_AsLong(PyTuple_GET_ITEM(shape, d));
    step *= size > 1 ? size : 1;
  }
  return leaf(made.release());
}

}  // namespace

// The interned contiguous geometry of a shape on the CPU, new, see `geometry` of geometry.py. Null, perhaps without an error:
// it is so large that somebody has to look whether there is memory.
PyObject* contiguous_geometry(PyObject* shape, PyObject* dtype) {
  long numel = 1;
  for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(shape); d++) {
    const long size = PyLong_AsLong(PyTuple_GET_ITEM(shape, d));
    if (size < 1 || size > classes.unchecked || (numel *= size) > classes.unchecked) return nullptr;
  }
  Held key(leaf(PyTuple_Pack(4, shape, Py_None, dtype, known.cpu)));
  if (!key) return nullptr;
  PyObject* found = PyDict_GetItemWithError(classes.interned, key.object);
  if (found || PyErr_Occurred()) return Py_XNewRef(found);
  const bool is_ordinary = Py_TYPE(shape) == classes.size && PySet_Contains(known.numbers, dtype) == 1 &&
                           PyDict_GET_SIZE(classes.interned) < PyLong_AsSsize_t(PyList_GET_ITEM(classes.sweep_at, 0));
  if (!is_ordinary) return PyObject_CallFunctionObjArgs(classes.make_geometry, shape, dtype, known.cpu, nullptr);
  Held stride(contiguous_stride(shape)), full(stride ? leaf(PyTuple_Pack(4, shape, stride.object, dtype, known.cpu)) : nullptr);
  if (!full) return nullptr;
  found = PyDict_GetItemWithError(classes.interned, full.object);
  if (!found && PyErr_Occurred()) return nullptr;
  Held made(found ? Py_NewRef(found) : classes.geometry->tp_alloc(classes.geometry, 0));
  if (!made) return nullptr;
  if (!found) {
    Held count(PyLong_FromLong(numel)), rank(PyLong_FromSsize_t(PyTuple_GET_SIZE(shape))), reads(PyDict_New()), views(PyDict_New());
    if (!count || !rank || !reads || !views) return nullptr;
    put(made.object, GEOMETRY_SHAPE, shape);
    put(made.object, GEOMETRY_STRIDE, stride.object);
    put(made.object, GEOMETRY_NUMEL, count.object);
    put(made.object, GEOMETRY_EXPANSE, count.object);
    put(made.object, GEOMETRY_DTYPE, dtype);
    put(made.object, GEOMETRY_DEVICE, known.cpu);
    put(made.object, GEOMETRY_BITS, zero);
    put(made.object, GEOMETRY_NDIM, rank.object);
    put(made.object, GEOMETRY_CONTIGUOUS, Py_True);
    put(made.object, GEOMETRY_DENSE, Py_True);
    put(made.object, GEOMETRY_ZERO_DIM, PyTuple_GET_SIZE(shape) ? Py_False : Py_True);
    put(made.object, GEOMETRY_READS, reads.object);
    put(made.object, GEOMETRY_VIEWS, views.object);
    if (PyDict_SetItem(classes.interned, full.object, made.object) < 0) return nullptr;
  }
  return PyDict_SetItem(classes.interned, key.object, made.object) < 0 ? nullptr : made.release();
}

// Whether an operand's strides are a new tensor's.
bool has_new_stride(PyObject* g) {
  if (at(g, GEOMETRY_CONTIGUOUS) != Py_True || at(g, GEOMETRY_DENSE) != Py_True) return false;
  PyObject *shape = at(g, GEOMETRY_SHAPE), *stride = at(g, GEOMETRY_STRIDE);
  long step = 1;
  for (Py_ssize_t d = PyTuple_GET_SIZE(shape) - 1; d >= 0; d--) {
    if (PyLong_AsLong(PyTuple_GET_ITEM(stride, d)) != step) return false;
    const long size = PyLong_AsLong(PyTuple_GET_ITEM(shape, d));
    step *= size > 1 ? size : 1;
  }
  return true;
}

// Whether two shapes are equal.
bool is_same_shape(PyObject* a, PyObject* b) {
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(a); d++) {
    PyObject *m = PyTuple_GET_ITEM(a, d), *n = PyTuple_GET_ITEM(b, d);
    if (m != n && PyLong_AsLong(m) != PyLong_AsLong(n)) return false;
  }
  return true;
}

namespace {

// The layout of an elementwise op's results, see `pointwise_stride` of geometry.py: the strides of each operand along the
// dimensions of a result, zero where it is repeated.
struct Pointwise {
  long shape[MOST_RANK], strides[MOST][MOST_RANK];
  int rank = 0, count = 0;
  bool is_same = false;  // whether all shapes are the result's, and there are no numbers

  // False: it is for Python to say.
  bool take(PyObject* sizes, PyObject* inputs, bool numbers) {
    rank = static_cast<int>(PyTuple_GET_SIZE(sizes));
    count = static_cast<int>(PyTuple_GET_SIZE(inputs));
    if (!rank || rank > MOST_RANK || count > MOST) return false;
    for (int d = 0; d < rank; d++) shape[d] = PyLong_AsLong(PyTuple_GET_ITEM(sizes, d));
    is_same = !numbers;
    for (int i = 0; i < count; i++) {
      PyObject* g = PyTuple_GET_ITEM(inputs, i);
      PyObject *own = at(g, GEOMETRY_SHAPE), *steps = at(g, GEOMETRY_STRIDE);
      const int gap = rank - static_cast<int>(PyTuple_GET_SIZE(own));
      if (gap < 0) return false;
      is_same = is_same && !gap;
      for (int d = 0; d < rank; d++) {
        const long size = d < gap ? 1 : PyLong_AsLong(PyTuple_GET_ITEM(own, d - gap));
        if (size != shape[d] && size != 1) return false;
        is_same = is_same && size == shape[d];
        strides[i][d] = d < gap || size != shape[d] ? 0 : PyLong_AsLong(PyTuple_GET_ITEM(steps, d - gap));
      }
    }
    return !is_same || rank < 4;  // channels may come last
  }

  // Whether dimension a is inside b (-1), outside (1), or neither.
  int compare(int a, int b) const {
    for (int i = 0; i < count; i++) {
      const long m = strides[i][a], n = strides[i][b];
      if (!m || !n) continue;
      if (m != n) return m < n ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  }

  // The strides of the result, new: of dense memory.
  PyObject* stride() const {
    int order[MOST_RANK];  // the innermost first
    for (int d = 0; d < rank; d++) order[d] = rank - 1 - d;
    for (int i = 1; i < rank; i++)
      for (int j = i - 1, at = i; j >= 0; j--) {
        const int verdict = compare(order[j], order[at]);
        if (verdict < 0) break;
        if (!verdict) continue;
        std::swap(order[j], order[at]);
        at = j;
      }
    Held made(PyTuple_New(rank));
    long step = 1;
    for (int i = 0; made && i < rank; i++) {
      PyObject* number = PyLong_FromLong(step);
      if (!number) return nullptr;
      PyTuple_SET_ITEM(made.object, order[i], number);
      step *= shape[order[i]] > 1 ? shape[order[i]] : 1;
    }
    return leaf(made.release());
  }
};

// The geometry of an elementwise op's result, new. Null perhaps without an error: it is for Python to make.
PyObject* pointwise_geometry(PyObject* shape, PyObject* dtype, PyObject* inputs, bool numbers) {
  Pointwise layout;
  if (!layout.take(shape, inputs, numbers)) return nullptr;
  long numel = 1;
  for (int d = 0; d < layout.rank; d++)
    if (layout.shape[d] < 1 || layout.shape[d] > classes.unchecked || (numel *= layout.shape[d]) > classes.unchecked) return nullptr;
  PyObject* first = PyTuple_GET_ITEM(inputs, 0);
  bool is_like_first = layout.is_same && at(first, GEOMETRY_DENSE) == Py_True, is_contiguous = layout.is_same;
  for (int i = 0; i < layout.count; i++) {
    is_contiguous = is_contiguous && at(PyTuple_GET_ITEM(inputs, i), GEOMETRY_CONTIGUOUS) == Py_True;
    for (int d = 0; is_like_first && d < layout.rank; d++) is_like_first = layout.strides[i][d] == layout.strides[0][d];
  }
  if (is_contiguous) return contiguous_geometry(shape, dtype);
  Held stride(is_like_first ? Py_NewRef(at(first, GEOMETRY_STRIDE)) : layout.stride()), dense(stride ? contiguous_stride(shape) : nullptr);
  if (!dense) return nullptr;
  if (PyObject_RichCompareBool(stride.object, dense.object, Py_EQ) == 1) return contiguous_geometry(shape, dtype);
  return PyObject_CallFunctionObjArgs(classes.make_geometry, shape, dtype, known.cpu, stride.object, nullptr);
}

}  // namespace

// The geometries of results, new: of dense operands and of elementwise ops here, of others by Python. Null perhaps without
// an error.
PyObject* geometries_of(PyObject* model, PyObject* instance, PyObject* inputs, PyObject* fixed) {
  PyObject *shapes = at(instance, INSTANCE_SHAPES), *dtypes = at(model, MODEL_DTYPES);
  const bool is_basic = at(model, MODEL_BASIC) == Py_True;
  bool is_new = is_basic;
  for (Py_ssize_t i = 0; is_new && i < PyTuple_GET_SIZE(inputs); i++) is_new = has_new_stride(PyTuple_GET_ITEM(inputs, i));
  const long follows = is_basic && !is_new ? PyLong_AsLong(at(model, MODEL_FOLLOWS)) : 0;
  if (!is_new && !follows) return PyObject_CallFunctionObjArgs(classes.result_geometries, model, instance, inputs, fixed, nullptr);
  const Py_ssize_t count = PyTuple_GET_SIZE(shapes);
  Held made(count == PyList_GET_SIZE(dtypes) ? PyTuple_New(count) : nullptr);
  for (Py_ssize_t k = 0; made && k < count; k++) {
    PyObject *shape = PyTuple_GET_ITEM(shapes, k), *dtype = PyList_GET_ITEM(dtypes, k), *found = nullptr;
    if (!PyTuple_Check(shape)) return nullptr;
    for (Py_ssize_t i = 0; is_new && !found && i < PyTuple_GET_SIZE(inputs); i++) {
      PyObject* g = PyTuple_GET_ITEM(inputs, i);
      if (at(g, GEOMETRY_DTYPE) == dtype && is_same_shape(at(g, GEOMETRY_SHAPE), shape)) found = Py_NewRef(g);
    }
    if (!found) found = is_new ? contiguous_geometry(shape, dtype) : pointwise_geometry(shape, dtype, inputs, follows == 2);
    if (!found) return PyErr_Occurred() ? nullptr
                       : PyObject_CallFunctionObjArgs(classes.result_geometries, model, instance, inputs, fixed, nullptr);
    PyTuple_SET_ITEM(made.object, k, found);
  }
  return made.release();
}

}  // namespace recording

// See target_memory.h.
#include "writes/target_memory.h"

namespace recording {
namespace {

PyObject *name_capture, *name_deferred, *name_settle, *name_flush;

}  // namespace

bool lie_simply(PyObject* geometry, PyObject* root) {
  return at(geometry, GEOMETRY_BITS) == zero && at(geometry, GEOMETRY_DTYPE) == at(root, GEOMETRY_DTYPE) &&
         at(root, GEOMETRY_CONTIGUOUS) == Py_True && at(root, GEOMETRY_DEVICE) == known.cpu &&
         PySet_Contains(known.numbers, at(root, GEOMETRY_DTYPE)) == 1;
}

namespace {

bool has_usual_elements(PyArrayObject* array) {
  return PyArray_ISALIGNED(array) && PyArray_ISNOTSWAPPED(array) && !PyDataType_REFCHK(PyArray_DESCR(array)) &&
         regions::is_known(PyArray_ITEMSIZE(array));
}

bool is_usual(PyArrayObject* array) { return PyArray_IS_C_CONTIGUOUS(array) && has_usual_elements(array); }

// The elements of a whole array where they lie: one number may stand for all of them (`ones`), or they are in another order.
bool find_strided(PyArrayObject* array, PyObject* shape, Region& region) {
  const int rank = PyArray_NDIM(array);
  if (rank > regions::MOST_DIMENSIONS || rank != PyTuple_GET_SIZE(shape) || !has_usual_elements(array)) return false;
  region.rank = rank, region.item = PyArray_ITEMSIZE(array), region.type = PyArray_TYPE(array);
  for (int d = 0; d < rank; d++) {
    region.shape[d] = PyArray_DIM(array, d), region.step[d] = PyArray_STRIDE(array, d);
    if (region.shape[d] != PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d)) || region.step[d] < 0) return false;
  }
  region.data = PyArray_BYTES(array);
  return true;
}

}  // namespace

bool find(PyArrayObject* array, PyObject* shape, PyObject* stride, npy_intp offset, Region& region) {
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape);
  if (rank > regions::MOST_DIMENSIONS || offset < 0) return false;
  region.rank = static_cast<int>(rank);
  region.item = PyArray_ITEMSIZE(array), region.type = PyArray_TYPE(array);
  npy_intp last = offset;
  bool empty = false;
  for (Py_ssize_t d = 0; d < rank; d++) {
    const npy_intp step = PyLong_AsSsize_t(PyTuple_GET_ITEM(stride, d));
    region.shape[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d));
    region.step[d] = step * region.item;
    if (!region.shape[d]) empty = true;
    else last += (region.shape[d] - 1) * step;
    if (step < 0) return false;
  }
  if (!empty && last >= PyArray_SIZE(array)) return false;
  region.data = PyArray_BYTES(array) + offset * region.item;
  return true;
}

bool find(PyArrayObject* array, PyObject* tensor, Region& region) {
  PyObject* geometry = at(tensor, TENSOR_GEOMETRY);
  return find(array, at(geometry, GEOMETRY_SHAPE), at(geometry, GEOMETRY_STRIDE), PyLong_AsSsize_t(at(tensor, TENSOR_OFFSET)), region);
}

int settle(PyObject* storage) {
  if (at(storage, STORAGE_TRACE) == Py_None) return 1;
  if (Py_TYPE(at(storage, STORAGE_TRACE)) != known.trace) return 0;
  Held kept(storage);
  Py_INCREF(storage);
  const int ran = run_short(at(storage, STORAGE_TRACE));
  if (ran) return ran < 0 ? -1 : at(storage, STORAGE_TRACE) == Py_None;
  Held done(PyObject_CallMethodNoArgs(storage, name_settle));
  return done ? at(storage, STORAGE_TRACE) == Py_None : -1;
}

namespace {

// The array that is written to (borrowed): memory that is shared with the user, or that nothing else holds; null: there is none.
PyArrayObject* own_array(PyObject* storage) {
  if (at(storage, STORAGE_TRACE) != Py_None) return nullptr;
  PyObject *host = at(storage, STORAGE_HOST), *own = host == Py_None ? at(storage, STORAGE_ARRAY) : host;
  if (!own || !PyArray_CheckExact(own)) return nullptr;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(own);
  if (!is_usual(array) || !PyArray_ISWRITEABLE(array)) return nullptr;
  if (host != Py_None) return array;
  // As `owns_memory` in Python; and what is weakly referred to has been looked at (`Checks`).
  PyObject* memory = PyArray_BASE(array);
  if (Py_REFCNT(own) != 1 || reinterpret_cast<PyArrayObject_fields*>(own)->weakreflist) return nullptr;
  if (!memory || !PyArray_CheckExact(memory) || Py_REFCNT(memory) != 1) return nullptr;
  PyArrayObject* bytes = reinterpret_cast<PyArrayObject*>(memory);
  return PyArray_TYPE(bytes) == NPY_UBYTE && PyArray_NDIM(bytes) == 1 && PyArray_CHKFLAGS(bytes, NPY_ARRAY_OWNDATA) ? array : nullptr;
}

}  // namespace

bool has_own_array(PyObject* storage) { return own_array(storage) != nullptr; }

int take(PyObject* storage, PyArrayObject*& array) {
  if ((array = own_array(storage))) return 1;
  Held trace(current_trace());
  if (!trace || is_number(at(trace.object, TRACE_STEPS), 0)) return 0;
  Held done(PyObject_CallMethodNoArgs(trace.object, name_flush));
  return done ? (array = own_array(storage)) != nullptr : -1;
}

bool count(PyObject* storage) {
  PyObject* version = PyLong_FromLongLong(PyLong_AsLongLong(at(storage, STORAGE_VERSION)) + 1);
  if (!version) return false;
  replace(storage, STORAGE_VERSION, version);
  return true;
}

void forget_copy(PyObject* storage) {
  if (at(storage, STORAGE_HOST) == Py_None || at(storage, STORAGE_ARRAY) == Py_None) return;
  Py_INCREF(Py_None);
  replace(storage, STORAGE_ARRAY, Py_None);
}

int Source::read(PyObject* tensor, PyObject* target) {
  PyObject *storage = at(tensor, TENSOR_STORAGE), *geometry = at(tensor, TENSOR_GEOMETRY);
  if (storage == target || !lie_simply(geometry, at(storage, STORAGE_ROOT))) return 0;
  int found = settle(storage);
  if (found < 1) return found;
  PyObject* own = at(storage, STORAGE_HOST) == Py_None ? at(storage, STORAGE_ARRAY) : at(storage, STORAGE_HOST);
  if (!own || own == Py_None) return 0;
  Py_INCREF(own);
  array.object = own;
  if (!PyArray_CheckExact(own)) {  // JAX's
    PyObject* seen = PyArray_FromAny(own, nullptr, 0, 0, 0, nullptr);
    Py_DECREF(own);
    if (!(array.object = seen)) {
      PyErr_Clear();  // Python's way tells what is wrong
      return 0;
    }
    if (!PyArray_CheckExact(seen)) return 0;
  }
  PyArrayObject* elements = reinterpret_cast<PyArrayObject*>(array.object);
  if (!PyArray_IS_C_CONTIGUOUS(elements))
    return geometry == at(storage, STORAGE_ROOT) && find_strided(elements, at(geometry, GEOMETRY_SHAPE), region);
  return has_usual_elements(elements) && find(elements, tensor, region);
}

bool may_write(PyObject* storage) {
  if (!known.writes || PyDict_GetItem(known.executor, name_deferred) != Py_True) return false;
  Held capture(PyObject_GetAttr(known.threads, name_capture));
  if (capture.object != Py_None) {
    PyErr_Clear();
    return false;
  }
  Held trace(current_trace());
  PyErr_Clear();
  return static_cast<bool>(trace) && PyLong_AsLongLong(at(storage, STORAGE_VERSION)) >= 0;
}

int fill_now(PyObject* storage, PyObject* shape, PyObject* stride, npy_intp offset, PyObject* number) {
  PyArrayObject* array;
  int found = take(storage, array);
  if (found < 1) return found;
  Region to;
  char element[16];
  if (!find(array, shape, stride, offset, to) || to.count() > MOST_ELEMENTS || !regions::encode(number, to.type, element)) return 0;
  if (!count(storage)) return -1;
  regions::fill(to, element);
  forget_copy(storage);
  return 1;
}

int copy_now(PyObject* storage, PyObject* shape, PyObject* stride, npy_intp offset, Source& source) {
  PyArrayObject* array;
  int found = take(storage, array);
  if (found < 1) return found;
  Region to;
  if (!find(array, shape, stride, offset, to) || to.count() > MOST_ELEMENTS || source.region.type != to.type ||
      source.region.item != to.item || !regions::broadcast(source.region, to)) return 0;
  if (!count(storage)) return -1;
  regions::copy(to, source.region);
  forget_copy(storage);
  return 1;
}

void name_target_memory() {
  name_capture = PyUnicode_InternFromString("capture");
  name_deferred = PyUnicode_InternFromString("DEFERRED");
  name_settle = PyUnicode_InternFromString("settle");
  name_flush = PyUnicode_InternFromString("flush");
}

}  // namespace recording

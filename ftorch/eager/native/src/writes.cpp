// Writes into memory, see writes.h. From where memory is found to be nobody else's until it is written to, no code of
// Python's runs and its lock is held: so nobody copies it meanwhile.
#include "writes.h"

#include "regions.h"

#include <initializer_list>

namespace recording {
namespace {

using regions::Region;

constexpr npy_intp MOST_ELEMENTS = 1 << 18;  // of more, other threads may run meanwhile: Python does it

enum Way { NO_WAY, FILL, COPY, SET_ROWS, ADD_ROWS, FILL_ROWS, SET_ELEMENTS, ADD_ELEMENTS, FILL_ELEMENTS };

PyObject *name_capture, *name_deferred, *name_settle, *name_flush;

bool lie_simply(PyObject* geometry, PyObject* root) {
  return at(geometry, GEOMETRY_BITS) == zero && at(geometry, GEOMETRY_DTYPE) == at(root, GEOMETRY_DTYPE) &&
         at(root, GEOMETRY_CONTIGUOUS) == Py_True && at(root, GEOMETRY_DEVICE) == known.cpu &&
         PySet_Contains(known.numbers, at(root, GEOMETRY_DTYPE)) == 1;
}

bool is_usual(PyArrayObject* array) {
  return PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISALIGNED(array) && PyArray_ISNOTSWAPPED(array) &&
         !PyDataType_REFCHK(PyArray_DESCR(array)) && regions::is_known(PyArray_ITEMSIZE(array));
}

// The elements that a shape, strides and an offset, in elements, say of an array.
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

// Runs what a storage waits for. 1: its value is there; 0: it cannot be had; -1 with an error.
int settle(PyObject* storage) {
  if (at(storage, STORAGE_TRACE) == Py_None) return 1;
  if (Py_TYPE(at(storage, STORAGE_TRACE)) != known.trace) return 0;
  Held kept(storage);
  Py_INCREF(storage);
  Held done(PyObject_CallMethodNoArgs(storage, name_settle));
  return done ? at(storage, STORAGE_TRACE) == Py_None : -1;
}

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

// `own_array`, once what this thread has recorded has let go of it.
int take(PyObject* storage, PyArrayObject*& array) {
  if ((array = own_array(storage))) return 1;
  Held trace(current_trace());
  if (!trace || is_number(at(trace.object, TRACE_STEPS), 0)) return 0;
  Held done(PyObject_CallMethodNoArgs(trace.object, name_flush));
  return done ? (array = own_array(storage)) != nullptr : -1;
}

// Counts a write; false with an error, before anything is written.
bool count(PyObject* storage) {
  PyObject* version = PyLong_FromLongLong(PyLong_AsLongLong(at(storage, STORAGE_VERSION)) + 1);
  if (!version) return false;
  replace(storage, STORAGE_VERSION, version);
  return true;
}

// An array of the user's is the value from here on.
void forget_copy(PyObject* storage) {
  if (at(storage, STORAGE_HOST) == Py_None || at(storage, STORAGE_ARRAY) == Py_None) return;
  Py_INCREF(Py_None);
  replace(storage, STORAGE_ARRAY, Py_None);
}

// A tensor that is read.
struct Source {
  Held array;
  Region region;

  // 1, 0 or -1 as in `settle`.
  int read(PyObject* tensor, PyObject* target) {
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
    return is_usual(elements) && find(elements, tensor, region);
  }
};

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

// `way`: of the `Way`s of writing by an index.
int change_now(int way, int dim, PyObject* target, PyObject* const* tensors, int given, PyObject* const* numbers, int scalars) {
  const bool fills = way == FILL_ROWS || way == FILL_ELEMENTS;
  if (given != (fills ? 2 : 3) || scalars > (fills || way == ADD_ROWS)) return 0;
  if (way == ADD_ROWS && scalars && !is_number(numbers[0], 1)) return 0;
  PyObject* storage = at(target, TENSOR_STORAGE);
  Source index, source;
  int found = index.read(tensors[1], storage);
  if (found == 1 && !fills) found = source.read(tensors[2], storage);
  PyArrayObject* array;
  if (found == 1) found = take(storage, array);
  if (found < 1) return found;
  Region to;
  const Region& places = index.region;
  if (!find(array, target, to) || places.count() > MOST_ELEMENTS) return 0;
  if (dim < 0) dim += to.rank;
  if (dim < 0 || dim >= to.rank || PyTypeNum_ISBOOL(places.type) || !PyTypeNum_ISSIGNED(places.type) || places.item != 8) return 0;
  const bool rows = way == SET_ROWS || way == ADD_ROWS || way == FILL_ROWS;
  const bool adds = way == ADD_ROWS || way == ADD_ELEMENTS;
  if (adds && !regions::adds(to.type)) return 0;
  char element[16];
  if (fills) {
    if (scalars != 1 || !regions::encode(numbers[0], to.type, element)) return 0;
    source.region = to;
    source.region.data = element;
    for (int d = 0; d < to.rank; d++) source.region.step[d] = 0;
  } else if (source.region.rank != to.rank || source.region.type != to.type || source.region.item != to.item) {
    return 0;
  }
  if (rows) {
    if (places.rank != 1) return 0;
    for (int d = 0; !fills && d < to.rank; d++)
      if (source.region.shape[d] != (d == dim ? places.shape[0] : to.shape[d])) return 0;
    if (to.shape[dim] && to.count() / to.shape[dim] * places.shape[0] > MOST_ELEMENTS) return 0;
  } else {
    if (places.rank != to.rank) return 0;
    for (int d = 0; d < to.rank; d++)
      if ((d != dim && places.shape[d] > to.shape[d]) || (!fills && places.shape[d] > source.region.shape[d])) return 0;
  }
  const regions::Change change = adds ? regions::ADD : regions::SET;
  // The version first: no memory may be missing once something is written.
  PyObject* version = PyLong_FromLongLong(PyLong_AsLongLong(at(storage, STORAGE_VERSION)) + 1);
  if (!version) return -1;
  const bool done = rows ? regions::change_rows(to, dim, places, source.region, change, way == FILL_ROWS)
                         : regions::change_elements(to, dim, places, source.region, change);
  if (done) {
    replace(storage, STORAGE_VERSION, version);
    forget_copy(storage);
  } else {
    Py_DECREF(version);
  }
  return done;
}

}  // namespace

bool is_written_at_once(PyObject* storage) {
  return at(storage, STORAGE_HOST) != Py_None || PyLong_AsLong(at(at(storage, STORAGE_ROOT), GEOMETRY_NUMEL)) >= known.large;
}

int write_now(PyObject* plan, PyObject*, PyObject* const* tensors, int given, PyObject* const* numbers, int scalars) {
  PyObject *target = tensors[0], *storage = at(target, TENSOR_STORAGE), *geometry = at(target, TENSOR_GEOMETRY);
  if (!may_write(storage) || !lie_simply(geometry, at(storage, STORAGE_ROOT)) || overlaps_itself(geometry)) return 0;
  Held way(at(plan, PLAN_WRITES));  // (number, dimension, what it is filled with)
  if (way.object == Py_None) way.object = PyObject_CallOneArg(known.way_of, plan);
  else Py_XINCREF(way.object);
  if (!way) return -1;
  const int kind = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(way.object, 0)));
  if (kind == NO_WAY) return 0;
  int found = settle(storage);
  if (found < 1) return found;
  PyObject *shape = at(geometry, GEOMETRY_SHAPE), *stride = at(geometry, GEOMETRY_STRIDE);
  const npy_intp offset = PyLong_AsSsize_t(at(target, TENSOR_OFFSET));
  if (kind == FILL) {
    PyObject* constant = PyTuple_GET_ITEM(way.object, 2);
    if (given != 1 || (constant == Py_None && scalars != 1)) return 0;
    return fill_now(storage, shape, stride, offset, constant == Py_None ? numbers[0] : constant);
  }
  if (kind == COPY) {
    if (given != 2) return 0;
    Source source;
    found = source.read(tensors[1], storage);
    return found < 1 ? found : copy_now(storage, shape, stride, offset, source);
  }
  return change_now(kind, static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(way.object, 1))), target, tensors, given, numbers, scalars);
}

// --- x[index] and x[index] = value, for indices of Python's numbers, slices of such, None and Ellipsis ---

namespace {

struct Part {
  int rank = 0;
  npy_intp shape[regions::MOST_DIMENSIONS], stride[regions::MOST_DIMENSIONS], offset = 0;

  bool add(npy_intp size, npy_intp step) {
    if (rank == regions::MOST_DIMENSIONS) return false;
    shape[rank] = size, stride[rank++] = step;
    return true;
  }
};

bool is_bound(PyObject* value) { return value == Py_None || PyLong_CheckExact(value); }

// False: it is another kind of index, or a wrong one.
bool follow(PyObject* geometry, PyObject* index, Part& part) {
  PyObject *shape = at(geometry, GEOMETRY_SHAPE), *stride = at(geometry, GEOMETRY_STRIDE);
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape);
  const bool many = PyTuple_CheckExact(index);
  const Py_ssize_t items = many ? PyTuple_GET_SIZE(index) : 1;
  Py_ssize_t consumed = 0, dim = 0;
  bool skips = false;
  for (Py_ssize_t i = 0; i < items; i++) {
    PyObject* item = many ? PyTuple_GET_ITEM(index, i) : index;
    if (item == Py_Ellipsis) {
      if (skips) return false;
      skips = true;
    } else if (item != Py_None) {
      consumed++;
    }
  }
  if (consumed > rank || rank > regions::MOST_DIMENSIONS) return false;
  const auto size = [&](Py_ssize_t d) { return PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d)); };
  const auto step = [&](Py_ssize_t d) { return PyLong_AsSsize_t(PyTuple_GET_ITEM(stride, d)); };
  for (Py_ssize_t i = 0; i < items; i++) {
    PyObject* item = many ? PyTuple_GET_ITEM(index, i) : index;
    if (PyLong_CheckExact(item)) {
      int overflow;
      long long n = PyLong_AsLongLongAndOverflow(item, &overflow);
      const npy_intp count = size(dim);
      if (overflow || n >= count || n < -count) return false;
      part.offset += (n < 0 ? n + count : n) * step(dim);
      dim++;
    } else if (PySlice_Check(item)) {
      PySliceObject* slice = reinterpret_cast<PySliceObject*>(item);
      if (!is_bound(slice->start) || !is_bound(slice->stop) || !is_bound(slice->step)) return false;
      Py_ssize_t start, stop, each;
      if (PySlice_Unpack(item, &start, &stop, &each) < 0) {
        PyErr_Clear();
        return false;
      }
      if (each < 0) return false;
      const Py_ssize_t length = PySlice_AdjustIndices(size(dim), &start, &stop, each);
      part.offset += start * step(dim);
      if (!part.add(length, step(dim) * each)) return false;
      dim++;
    } else if (item == Py_None) {
      if (!part.add(1, dim < rank ? size(dim) * step(dim) : 1)) return false;
    } else if (item == Py_Ellipsis) {
      for (Py_ssize_t k = rank - consumed; k > 0; k--, dim++)
        if (!part.add(size(dim), step(dim))) return false;
    } else {
      return false;
    }
  }
  for (; dim < rank; dim++)
    if (!part.add(size(dim), step(dim))) return false;
  return true;
}

PyObject* tuple_of(const npy_intp* values, int count) {
  Held made(PyTuple_New(count));
  for (int i = 0; made && i < count; i++) {
    PyObject* number = PyLong_FromSsize_t(values[i]);
    if (!number) return nullptr;
    PyTuple_SET_ITEM(made.object, i, number);
  }
  return made.release();
}

// The geometry of a part of another one (a new reference), which that one remembers.
PyObject* geometry_of(PyObject* whole, const Part& part) {
  npy_intp key[2 * regions::MOST_DIMENSIONS];
  for (int d = 0; d < part.rank; d++) key[d] = part.shape[d], key[part.rank + d] = part.stride[d];
  Held name(PyBytes_FromStringAndSize(reinterpret_cast<char*>(key), 2 * part.rank * sizeof(npy_intp)));
  if (!name) return nullptr;
  PyObject* found = PyDict_GetItemWithError(at(whole, GEOMETRY_VIEWS), name.object);
  if (found) {
    Py_INCREF(found);
    return found;
  }
  Held shape(tuple_of(part.shape, part.rank)), stride(tuple_of(part.stride, part.rank));
  if (!shape || !stride) return nullptr;
  return PyObject_CallFunctionObjArgs(known.part_of, whole, name.object, shape.object, stride.object, nullptr);
}

// Whether a tensor is a plain one of which neither graphs nor transforms know anything.
bool is_free(PyObject* t) {
  if (!is_plain(Py_TYPE(t)) || at(t, TENSOR_REQUIRES_GRAD) != Py_False || at(t, TENSOR_META) != Py_None) return false;
  PyObject* base = at(t, TENSOR_BASE);
  return base == Py_None || (is_plain(Py_TYPE(base)) && at(base, TENSOR_REQUIRES_GRAD) == Py_False);
}

PyObject* view_of(PyObject* x, const Part& part) {
  Held geometry(geometry_of(at(x, TENSOR_GEOMETRY), part));
  if (!geometry) return nullptr;
  Held offset(PyLong_FromSsize_t(PyLong_AsSsize_t(at(x, TENSOR_OFFSET)) + part.offset));
  if (!offset) return nullptr;
  PyObject* view = new_tensor(at(x, TENSOR_STORAGE));
  if (!view) return nullptr;
  PyObject *base = at(x, TENSOR_BASE) == Py_None ? x : at(x, TENSOR_BASE), *version = at(at(x, TENSOR_STORAGE), STORAGE_VERSION);
  Py_INCREF(base);
  Py_INCREF(version);
  replace(view, TENSOR_GEOMETRY, geometry.release());
  replace(view, TENSOR_OFFSET, offset.release());
  replace(view, TENSOR_BASE, base);
  replace(view, TENSOR_ATTR_VERSION, version);
  return view;
}

bool is_ready(PyObject* x) { return zero && PyList_GET_ITEM(known.special, 0) == zero && is_free(x); }

// 1, 0 or -1 as `write_now`.
int assign(PyObject* x, const Part& part, PyObject* value) {
  PyObject *storage = at(x, TENSOR_STORAGE), *geometry = at(x, TENSOR_GEOMETRY);
  if (!is_written_at_once(storage) || !may_write(storage) || !is_empty(name_differentiating) ||
      !lie_simply(geometry, at(storage, STORAGE_ROOT)) || overlaps_itself(geometry)) return 0;
  Source source;
  const bool copies = is_plain(Py_TYPE(value));
  if (copies && !is_free(value)) return 0;
  Held shape(tuple_of(part.shape, part.rank)), stride(tuple_of(part.stride, part.rank));
  if (!shape || !stride) return -1;
  int found = settle(storage);
  if (found == 1 && copies) found = source.read(value, storage);
  if (found < 1) return found;
  const npy_intp offset = PyLong_AsSsize_t(at(x, TENSOR_OFFSET)) + part.offset;
  return copies ? copy_now(storage, shape.object, stride.object, offset, source)
                : fill_now(storage, shape.object, stride.object, offset, value);
}

}  // namespace

// item_of(x, index): the view that `x[index]` is, or None where Python has to find out.
PyObject* item_of(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Part part;
  if (count != 2 || !is_ready(arguments[0]) || !follow(at(arguments[0], TENSOR_GEOMETRY), arguments[1], part)) Py_RETURN_NONE;
  return view_of(arguments[0], part);
}

// write_item(x, index, value): True if it was written, a view that is to be written to, or None where Python has to find out.
PyObject* write_item(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Part part;
  if (count != 3 || !is_ready(arguments[0]) || !follow(at(arguments[0], TENSOR_GEOMETRY), arguments[1], part)) Py_RETURN_NONE;
  const int done = assign(arguments[0], part, arguments[2]);
  if (done == 1) Py_RETURN_TRUE;
  return done < 0 ? nullptr : view_of(arguments[0], part);
}

void name_writes() {
  name_capture = PyUnicode_InternFromString("capture");
  name_deferred = PyUnicode_InternFromString("DEFERRED");
  name_settle = PyUnicode_InternFromString("settle");
  name_flush = PyUnicode_InternFromString("flush");
}

}  // namespace recording

// x[index] and x[index] = value, for indices of Python's numbers, tensors of one integer, slices of numbers, None and Ellipsis, the
// latter for index tensors, too; see writes.h.
#include "writes/target_memory.h"
#include "writes/writes.h"

#include <initializer_list>

namespace recording {

bool is_free(PyObject* t) {
  if (!is_plain(Py_TYPE(t)) || at(t, TENSOR_REQUIRES_GRAD) != Py_False || at(t, TENSOR_META) != Py_None) return false;
  PyObject* base = at(t, TENSOR_BASE);
  return base == Py_None || (is_plain(Py_TYPE(base)) && at(base, TENSOR_REQUIRES_GRAD) == Py_False);
}

namespace {

// How a view without a node is made, as tape.py says it: by the mode, else as what it is a view of (if that is a view, too).
PyObject* in_mode(PyObject* of_whole) {
  const long whole = PyLong_AsLong(of_whole);
  if (mode(name_grad) == 0) return PyLong_FromLong(whole == -2 || mode(name_inference) == 1 ? -2 : -1);
  return Py_NewRef(whole < 0 ? of_whole : zero);
}

}  // namespace

PyObject* view_of(PyObject* x, PyObject* geometry, Py_ssize_t delta) {
  Held offset(PyLong_FromSsize_t(PyLong_AsSsize_t(at(x, TENSOR_OFFSET)) + delta));
  Held made(in_mode(at(x, TENSOR_OUTPUT_NR)));
  PyObject* view = offset && made ? new_tensor(at(x, TENSOR_STORAGE)) : nullptr;
  if (!view) return nullptr;
  PyObject *base = at(x, TENSOR_BASE) == Py_None ? x : at(x, TENSOR_BASE), *version = at(at(x, TENSOR_STORAGE), STORAGE_VERSION);
  Py_INCREF(geometry);
  Py_INCREF(base);
  Py_INCREF(version);
  replace(view, TENSOR_GEOMETRY, geometry);
  replace(view, TENSOR_OFFSET, offset.release());
  replace(view, TENSOR_BASE, base);
  replace(view, TENSOR_OUTPUT_NR, made.release());
  replace(view, TENSOR_ATTR_VERSION, version);
  return view;
}

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

// Index tensors, by the dimensions of a part that they stand in the place of.
struct Advanced {
  int count = 0, dims[regions::MOST_DIMENSIONS];
  PyObject* tensors[regions::MOST_DIMENSIONS];
};

// The integer that a tensor without dimensions holds; false if it is another kind, or pending.
bool integer_in(PyObject* tensor, long long& n) {
  PyObject* storage = at(tensor, TENSOR_STORAGE);
  if (at(storage, STORAGE_TRACE) != Py_None || PyTuple_GET_SIZE(at(at(tensor, TENSOR_GEOMETRY), GEOMETRY_SHAPE))) return false;
  Source source;
  if (source.read(tensor, nullptr) != 1) {
    PyErr_Clear();
    return false;
  }
  const Region& region = source.region;
  if (PyTypeNum_ISBOOL(region.type) || !PyTypeNum_ISSIGNED(region.type) || region.item != 8) return false;
  n = *reinterpret_cast<const int64_t*>(region.data);
  return true;
}

bool is_bound(PyObject* value) { return value == Py_None || PyLong_CheckExact(value); }

// False: it is another kind of index, or a wrong one.
bool follow(PyObject* geometry, PyObject* index, Part& part, Advanced* advanced = nullptr) {
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
    const bool is_tensor = is_plain(Py_TYPE(item)) && at(item, TENSOR_META) == Py_None;
    long long n = 0;
    if (is_tensor && !integer_in(item, n)) {
      if (!advanced || advanced->count == regions::MOST_DIMENSIONS || !PyTuple_GET_SIZE(at(at(item, TENSOR_GEOMETRY), GEOMETRY_SHAPE)))
        return false;
      advanced->tensors[advanced->count] = item, advanced->dims[advanced->count++] = part.rank;
      if (!part.add(size(dim), step(dim))) return false;
      dim++;
    } else if (is_tensor || PyLong_CheckExact(item)) {
      int overflow = 0;
      if (!is_tensor) n = PyLong_AsLongLongAndOverflow(item, &overflow);
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

PyObject* view_of(PyObject* x, const Part& part) {
  Held geometry(geometry_of(at(x, TENSOR_GEOMETRY), part));
  return geometry ? recording::view_of(x, geometry.object, part.offset) : nullptr;
}

bool is_ready(PyObject* x) { return zero && PyList_GET_ITEM(known.special, 0) == zero && is_free(x); }

// Whether a tensor is a part of another one itself, as `x[i] += 1` assigns it.
bool is_part(PyObject* value, PyObject* x, const Part& part) {
  if (at(value, TENSOR_STORAGE) != at(x, TENSOR_STORAGE)) return false;
  PyObject* geometry = at(value, TENSOR_GEOMETRY);
  PyObject *shape = at(geometry, GEOMETRY_SHAPE), *stride = at(geometry, GEOMETRY_STRIDE);
  PyObject* whole = at(x, TENSOR_GEOMETRY);
  if (PyTuple_GET_SIZE(shape) != part.rank || at(geometry, GEOMETRY_DTYPE) != at(whole, GEOMETRY_DTYPE) || at(geometry, GEOMETRY_BITS) != at(whole, GEOMETRY_BITS))
    return false;
  for (int d = 0; d < part.rank; d++)
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d)) != part.shape[d] || PyLong_AsSsize_t(PyTuple_GET_ITEM(stride, d)) != part.stride[d])
      return false;
  return PyLong_AsSsize_t(at(value, TENSOR_OFFSET)) == PyLong_AsSsize_t(at(x, TENSOR_OFFSET)) + part.offset;
}

// Whether a small storage is written to at once: it has its value in memory of NumPy's that nothing else holds, and what is written,
// and where, is known, too. To record the write would copy the storage when it runs. 1, 0 or -1 as in `settle`.
int is_at_hand(PyObject* storage, PyObject* value, const Advanced& advanced) {
  const auto waits = [](PyObject* tensor) { return at(at(tensor, TENSOR_STORAGE), STORAGE_TRACE) != Py_None; };
  if (at(storage, STORAGE_TRACE) != Py_None || (is_plain(Py_TYPE(value)) && waits(value))) return 0;
  for (int k = 0; k < advanced.count; k++)
    if (waits(advanced.tensors[k])) return 0;
  if (has_own_array(storage)) return 1;
  PyObject* array = at(storage, STORAGE_ARRAY);
  if (!PyArray_CheckExact(array) || Py_REFCNT(array) != 1) return 0;
  Held done(PyObject_CallOneArg(known.own, storage));
  return done ? has_own_array(storage) : -1;
}

// 1, 0 or -1 as `write_now`.
int assign(PyObject* x, const Part& part, const Advanced& advanced, PyObject* value) {
  PyObject *storage = at(x, TENSOR_STORAGE), *geometry = at(x, TENSOR_GEOMETRY);
  if (!may_write(storage) || !is_empty(name_differentiating) || overlaps_itself(geometry)) return 0;
  Source source;
  const bool copies = is_plain(Py_TYPE(value));
  if (copies && !is_free(value)) return 0;
  if (copies && !advanced.count && is_part(value, x, part)) return count(storage) ? 1 : -1;
  if (!lie_simply(geometry, at(storage, STORAGE_ROOT))) return 0;
  int found = is_written_at_once(storage) ? 1 : is_at_hand(storage, value, advanced);
  if (found < 1) return found;
  Held shape(tuple_of(part.shape, part.rank)), stride(tuple_of(part.stride, part.rank));
  if (!shape || !stride) return -1;
  found = settle(storage);
  const npy_intp offset = PyLong_AsSsize_t(at(x, TENSOR_OFFSET)) + part.offset;
  if (found == 1 && advanced.count)
    return put_now(storage, shape.object, stride.object, offset, advanced.tensors, advanced.dims, advanced.count, value, false);
  if (found == 1 && copies) found = source.read(value, storage);
  if (found < 1) return found;
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
  Advanced advanced;
  if (count != 3 || !is_ready(arguments[0]) || !follow(at(arguments[0], TENSOR_GEOMETRY), arguments[1], part, &advanced)) Py_RETURN_NONE;
  const int done = assign(arguments[0], part, advanced, arguments[2]);
  if (done == 1) Py_RETURN_TRUE;
  if (!done && advanced.count) Py_RETURN_NONE;
  return done < 0 ? nullptr : view_of(arguments[0], part);
}

}  // namespace recording

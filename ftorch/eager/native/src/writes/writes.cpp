// Writes into memory, see writes.h. From where memory is found to be nobody else's until it is written to, no code of
// Python's runs and its lock is held: so nobody copies it meanwhile.
#include "writes/writes.h"

#include "codes.h"
#include "threads/own_threads.h"
#include "objects/program_object.h"
#include "writes/target_memory.h"

#include <new>
#include <vector>

namespace recording {
namespace {

enum WriteKind { WRITES(ENUMERATOR) };

// Makes a source dense and multiplies it by a number, rounded as the product of two tensors is; false: it is not done here.
bool scale(Region& source, PyObject* number, std::vector<double>& memory) {
  char factor[16];
  if ((source.type != NPY_FLOAT && source.type != NPY_DOUBLE) || !regions::encode(number, source.type, factor)) return false;
  const npy_intp count = source.count();
  try {
    memory.resize((count * source.item + sizeof(double) - 1) / sizeof(double));
  } catch (const std::bad_alloc&) {
    return false;
  }
  Region dense = source;
  dense.data = reinterpret_cast<char*>(memory.data());
  npy_intp step = source.item;
  for (int d = dense.rank - 1; d >= 0; d--) dense.step[d] = step, step *= dense.shape[d];
  regions::copy(dense, source);
  if (source.type == NPY_FLOAT) {
    float* values = reinterpret_cast<float*>(dense.data);
    const float by = *reinterpret_cast<const float*>(factor);
    for (npy_intp i = 0; i < count; i++) values[i] *= by;
  } else {
    const double by = *reinterpret_cast<const double*>(factor);
    for (npy_intp i = 0; i < count; i++) memory[i] *= by;
  }
  source = dense;
  return true;
}

// `kind`: one of those that write by an index.
int change_now(int kind, int dim, PyObject* target, PyObject* const* tensors, int given, PyObject* const* numbers, int scalars) {
  const bool fills = kind == FILL_ROWS || kind == FILL_ELEMENTS;
  if (given != (fills ? 2 : 3) || scalars > (fills || kind == ADD_ROWS)) return 0;
  const bool scales = kind == ADD_ROWS && scalars && !is_number(numbers[0], 1);
  std::vector<double> scaled;
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
  const bool rows = kind == SET_ROWS || kind == ADD_ROWS || kind == FILL_ROWS;
  const bool adds = kind == ADD_ROWS || kind == ADD_ELEMENTS;
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
  if (scales && !scale(source.region, numbers[0], scaled)) return 0;
  const regions::Change change = adds ? regions::ADD : regions::SET;
  // The version first: no memory may be missing once something is written.
  PyObject* version = PyLong_FromLongLong(PyLong_AsLongLong(at(storage, STORAGE_VERSION)) + 1);
  if (!version) return -1;
  const bool done = rows ? regions::change_rows(to, dim, places, source.region, change, kind == FILL_ROWS)
                         : regions::change_elements(to, dim, places, source.region, change);
  if (done) {
    replace(storage, STORAGE_VERSION, version);
    forget_copy(storage);
  } else {
    Py_DECREF(version);
  }
  return done;
}

// Writes what an elementwise program gives. `sources`: of each of its inputs, the tensor it is, or -1 - a number.
int compute_now(PyObject* object, PyObject* sources, PyObject* target, PyObject* const* tensors, int given,
                PyObject* const* numbers, int scalars) {
  const elementwise::Program* program = program_in(object);
  const int inputs = static_cast<int>(PyTuple_GET_SIZE(sources));
  if (!program || inputs > MOST) return 0;
  PyObject* storage = at(target, TENSOR_STORAGE);
  Source read[MOST];
  uint64_t bits[MOST];
  int places[MOST];
  for (int i = 0; i < inputs; i++) {
    const int place = places[i] = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(sources, i)));
    if (place >= given || -1 - place >= scalars) return 0;
    if (place < 0) {
      if (!encode_number(numbers[-1 - place], program->input_types()[i], bits[i])) return 0;
    } else if (tensors[place] != target) {
      const int found = read[i].read(tensors[place], storage);
      if (found < 1) return found;
    }
  }
  PyArrayObject* array;
  const int found = take(storage, array);
  if (found < 1) return found;
  Region to;
  if (!find(array, target, to) || to.count() > MOST_ELEMENTS || !is_of(program->result_type(program->results()[0]), to.type)) return 0;
  int64_t shape[regions::MOST_DIMENSIONS];
  const bool reduced[regions::MOST_DIMENSIONS] = {};
  elementwise::Array operands[MOST + 1];
  for (int d = 0; d < to.rank; d++) shape[d] = to.shape[d], operands[inputs].steps[d] = to.step[d];
  operands[inputs].data = to.data;
  for (int i = 0; i < inputs; i++) {
    elementwise::Array& operand = operands[i];
    if (places[i] < 0) {
      operand.data = reinterpret_cast<char*>(&bits[i]);
      for (int d = 0; d < to.rank; d++) operand.steps[d] = 0;
      continue;
    }
    if (tensors[places[i]] == target) read[i].region = to;
    Region& from = read[i].region;
    if (!is_of(program->input_types()[i], from.type) || !regions::broadcast(from, to)) return 0;
    operand.data = from.data;
    for (int d = 0; d < to.rank; d++) operand.steps[d] = from.step[d];
  }
  if (!count(storage)) return -1;
  try {
    DirectCall direct;
    program->run(to.rank, shape, reduced, operands, operands + inputs);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return -1;
  }
  forget_copy(storage);
  return 1;
}

}  // namespace

int put_now(PyObject* storage, PyObject* shape, PyObject* stride, Py_ssize_t offset, PyObject* const* tensors, const int* dims, int count,
            PyObject* value, bool adds) {
  Source index[regions::MOST_DIMENSIONS], source;
  regions::Indices indices;
  const bool is_tensor = is_plain(Py_TYPE(value));
  for (int k = 0; k < count; k++) {
    const int found = index[k].read(tensors[k], storage);
    if (found < 1) return found;
    const Region& places = index[k].region;
    if (PyTypeNum_ISBOOL(places.type) || !PyTypeNum_ISSIGNED(places.type) || places.item != 8) return 0;
    indices.places[k] = places, indices.dims[k] = dims[k];
  }
  indices.count = count;
  int found = is_tensor ? source.read(value, storage) : 1;
  PyArrayObject* array;
  if (found == 1) found = take(storage, array);
  if (found < 1) return found;
  Region to;
  if (!find(array, shape, stride, offset, to) || (adds && !regions::adds(to.type))) return 0;
  char element[16];
  if (!is_tensor) {
    if (!regions::encode(value, to.type, element)) return 0;
    source.region = to;
    source.region.data = element, source.region.rank = 0;
  } else if (source.region.type != to.type || source.region.item != to.item) {
    return 0;
  }
  // The version first: no memory may be missing once something is written.
  PyObject* version = PyLong_FromLongLong(PyLong_AsLongLong(at(storage, STORAGE_VERSION)) + 1);
  if (!version) return -1;
  if (!regions::change_places(to, indices, source.region, adds ? regions::ADD : regions::SET, MOST_ELEMENTS)) {
    Py_DECREF(version);
    return 0;
  }
  replace(storage, STORAGE_VERSION, version);
  forget_copy(storage);
  return 1;
}

bool is_written_at_once(PyObject* storage) {
  return at(storage, STORAGE_HOST) != Py_None || PyLong_AsLong(at(at(storage, STORAGE_ROOT), GEOMETRY_NUMEL)) >= known.large;
}

int write_now(PyObject* plan, PyObject* const* tensors, int given, PyObject* const* numbers, int scalars) {
  PyObject *target = tensors[0], *storage = at(target, TENSOR_STORAGE), *geometry = at(target, TENSOR_GEOMETRY);
  if (!may_write(storage) || !lie_simply(geometry, at(storage, STORAGE_ROOT)) || overlaps_itself(geometry)) return 0;
  Held write(at(plan, PLAN_WRITES));  // (number, dimension, what it is filled with); of COMPUTE: (number, program, sources)
  if (write.object == Py_None) write.object = PyObject_CallOneArg(known.write_of, plan);
  else Py_XINCREF(write.object);
  if (!write) return -1;
  const int kind = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(write.object, 0)));
  if (kind == NO_WRITE) return 0;
  if (kind == COMPUTE && (geometry == at(storage, STORAGE_ROOT) || at(plan, PLAN_CHECKS) != Py_None)) return 0;  // recorded
  int found = settle(storage);
  if (found < 1) return found;
  PyObject *shape = at(geometry, GEOMETRY_SHAPE), *stride = at(geometry, GEOMETRY_STRIDE);
  const npy_intp offset = PyLong_AsSsize_t(at(target, TENSOR_OFFSET));
  if (kind == FILL) {
    PyObject* constant = PyTuple_GET_ITEM(write.object, 2);
    if (given != 1 || (constant == Py_None && scalars != 1)) return 0;
    return fill_now(storage, shape, stride, offset, constant == Py_None ? numbers[0] : constant);
  }
  if (kind == COPY) {
    if (given != 2) return 0;
    Source source;
    found = source.read(tensors[1], storage);
    return found < 1 ? found : copy_now(storage, shape, stride, offset, source);
  }
  if (kind == COMPUTE)
    return compute_now(PyTuple_GET_ITEM(write.object, 1), PyTuple_GET_ITEM(write.object, 2), target, tensors, given, numbers, scalars);
  if (kind == PUT || kind == ADD_AT) {  // the dimensions that have indices in the place of one
    PyObject* listed = PyTuple_GET_ITEM(write.object, 1);
    const int count = static_cast<int>(PyTuple_GET_SIZE(listed));
    int dims[regions::MOST_DIMENSIONS];
    if (scalars || given != count + 2 || count > regions::MOST_DIMENSIONS) return 0;
    for (int k = 0; k < count; k++) dims[k] = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(listed, k)));
    if (!count || dims[count - 1] >= PyTuple_GET_SIZE(shape)) return 0;
    return put_now(storage, shape, stride, offset, tensors + 1, dims, count, tensors[count + 1], kind == ADD_AT);
  }
  return change_now(kind, static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(write.object, 1))), target, tensors, given, numbers, scalars);
}

}  // namespace recording

// Elementwise programs as objects that Python calls.

#include "objects/program_object.h"
#include "module.h"
#include "threads/own_threads.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace elementwise;

namespace {

constexpr double WORTH_UNLOCKING = 4e4;  // additions in whose time (some us) other Python threads may run
constexpr int MOST_OPERANDS = 512;

struct ProgramObject {
  PyObject_HEAD
  vectorcallfunc call;
  Program* program;
  std::vector<std::vector<int>>* dims;  // of each input: the program's dimension of each of its own
  std::vector<bool>* aligned;           // of each input: whether its dimensions are the last ones
  std::vector<int>* axes;               // that are reduced
};

int brain_number = NPY_NOTYPE;  // bfloat16 is a dtype that is registered with NumPy

int number_of(Type type) {
  switch (type) {
    case F16: return NPY_HALF;
    case BF16: return brain_number;
    case BOOL: return NPY_BOOL;
    case I8: return NPY_INT8;
    case U8: return NPY_UINT8;
    case I16: return NPY_INT16;
    case I32: return NPY_INT32;
    case U32: return NPY_UINT32;
    case I64: return NPY_INT64;
    case F32: return NPY_FLOAT32;
    default: return NPY_FLOAT64;
  }
}

bool has_type(PyArrayObject* array, Type type) {
  return is_of(type, PyArray_TYPE(array)) && PyArray_ISNOTSWAPPED(array);
}

template <typename T>
void put(uint64_t* to, T value) { std::memcpy(to, &value, sizeof value); }

// A number as one of 16 bits.
void convert(float value, Type type, uint64_t* to) {
  float given[GRAIN] = {value};
  uint16_t found[GRAIN];
  step_of(CONVERT, F32, type)(GRAIN, found, given, nullptr, nullptr);
  put(to, found[0]);
}

// A number of Python's as the bits of a type.
uint64_t bits_of(PyObject* object, Type type) {
  uint64_t bits = 0;
  if (type == F32 || type == F64 || type == F16 || type == BF16) {
    const double value = PyFloat_AsDouble(object);
    if (value == -1 && PyErr_Occurred()) throw PythonError();
    const float narrow = static_cast<float>(value);
    if (type == F32) put(&bits, narrow);
    else if (type != F64) convert(narrow, type, &bits);
    else put(&bits, value);
  } else if (type == BOOL) {
    const int value = PyObject_IsTrue(object);
    if (value < 0) throw PythonError();
    put(&bits, static_cast<uint8_t>(value));
  } else {
    bits = static_cast<uint64_t>(integer_of(object));  // the low bytes come first
  }
  return bits;
}

Type type_of(PyObject* object) {
  const int64_t code = integer_of(object);
  if (code < 0 || code >= TYPES) fail(PyExc_ValueError, "no code of a dtype");
  return static_cast<Type>(code);
}

// --- a call ------------------------------------------------------------------------------------

struct Given {  // operands of a call, and what they keep alive
  Array inputs[MOST_OPERANDS];
  uint64_t numbers[MOST_OPERANDS];
};

void read_input(ProgramObject* self, int i, PyObject* object, int rank, const int64_t* shape, Array& input, uint64_t& number,
                std::vector<Owned>& held) {
  const Type type = self->program->input_types()[i];
  if (!PyArray_Check(object)) {
    number = bits_of(object, type);
    input.data = reinterpret_cast<char*>(&number);
    for (int d = 0; d < rank; d++) input.steps[d] = 0;
    return;
  }
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
  if (!has_type(array, type)) fail(PyExc_TypeError, "an array of another dtype than the program's");
  if (!PyArray_ISALIGNED(array)) {
    held.emplace_back(PyArray_NewCopy(array, NPY_CORDER));
    if (!held.back()) throw PythonError();
    array = reinterpret_cast<PyArrayObject*>(held.back().object);
  }
  input.data = PyArray_BYTES(array);
  for (int d = 0; d < rank; d++) input.steps[d] = 0;
  const int own = PyArray_NDIM(array);
  const std::vector<int>& dims = (*self->dims)[i];
  const bool aligned = (*self->aligned)[i];
  if (aligned ? own > rank : own != static_cast<int>(dims.size())) fail(PyExc_ValueError, "an array with too many dimensions");
  for (int d = 0; d < own; d++) {
    const int place = aligned ? rank - own + d : dims[d];
    const int64_t size = PyArray_DIM(array, d);
    if (place >= rank || (size != shape[place] && size != 1)) fail(PyExc_ValueError, "an array whose shape does not go with the program's");
    if (size == shape[place] && size != 1) input.steps[place] = PyArray_STRIDE(array, d);
  }
}

PyObject* call_program(PyObject* callable, PyObject* const* given, size_t flags, PyObject* names) {
  return with_errors([&]() -> PyObject* {
    ProgramObject* self = reinterpret_cast<ProgramObject*>(callable);
    const Program& program = *self->program;
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (names || count < 2 || count > 3) fail(PyExc_TypeError, "program(inputs, shape, out=None)");
    const Items inputs(given[0]), sizes(given[1]);
    const int rank = sizes.count, ins = program.input_types().size(), outs = program.results().size();
    if (inputs.count != ins) fail(PyExc_TypeError, "another number of inputs than the program's");
    if (rank > MOST_DIMENSIONS) fail(PyExc_ValueError, "too many dimensions");
    int64_t shape[MOST_DIMENSIONS];
    npy_intp left[MOST_DIMENSIONS];
    bool reduced[MOST_DIMENSIONS] = {};
    double elements = 1;
    for (int d = 0; d < rank; d++) {
      if ((shape[d] = integer_of(sizes[d])) < 0) fail(PyExc_ValueError, "negative size");
      elements *= shape[d];
    }
    for (const int axis : *self->axes) {
      if (axis < 0 || axis >= rank) fail(PyExc_ValueError, "no such dimension");
      reduced[axis] = true;
    }
    int left_rank = 0;
    for (int d = 0; d < rank; d++)
      if (!reduced[d]) left[left_rank++] = shape[d];
    std::vector<Owned> held;
    std::unique_ptr<Array[]> arrays(new Array[ins + outs]);
    std::unique_ptr<uint64_t[]> numbers(new uint64_t[ins + 1]);
    for (int i = 0; i < ins; i++) read_input(self, i, inputs[i], rank, shape, arrays[i], numbers[i], held);
    Owned results(PyList_New(outs));
    if (!results) throw PythonError();
    const bool into = count == 3 && given[2] != Py_None;
    if (into && Items(given[2]).count != outs) fail(PyExc_TypeError, "another number of outputs than the program's");
    for (int o = 0; o < outs; o++) {
      const Output& output = program.results()[o];
      const bool reduces = output.reduction >= 0;
      const Type type = program.result_type(output);
      PyObject* target = into ? Items(given[2])[o] : Py_None;
      if (target == Py_None) {
        if (reduces) {
          target = new_array(left_rank, left, number_of(type)).release();
        } else {
          npy_intp own[MOST_DIMENSIONS];
          for (int d = 0; d < rank; d++) own[d] = shape[d];
          target = new_array(rank, own, number_of(type)).release();
        }
      } else {
        Py_INCREF(target);
      }
      PyList_SET_ITEM(results.object, o, target);
      PyArrayObject* array = array_of(target);
      if (!has_type(array, type) || !PyArray_ISBEHAVED(array)) fail(PyExc_TypeError, "an output that is not of the program's dtype, or not to be written");
      if (PyArray_NDIM(array) != (reduces ? left_rank : rank)) fail(PyExc_ValueError, "an output of another shape");
      if (reduces && !PyArray_IS_C_CONTIGUOUS(array)) fail(PyExc_ValueError, "a reduction's output that is not contiguous");
      Array& to = arrays[ins + o];
      to.data = PyArray_BYTES(array);
      for (int d = 0, own = 0; d < rank; d++) {
        to.steps[d] = 0;
        if (reduces && reduced[d]) continue;
        if (PyArray_DIM(array, own) != shape[d]) fail(PyExc_ValueError, "an output of another shape");
        to.steps[d] = PyArray_STRIDE(array, own++);
      }
    }
    {
      Unlocked unlocked(program.cost() * elements > WORTH_UNLOCKING, !into);
      DirectCall direct;
      program.run(rank, shape, reduced, arrays.get(), arrays.get() + ins);
    }
    return results.release();
  });
}

// --- making one --------------------------------------------------------------------------------

void free_program(PyObject* object) {
  ProgramObject* self = reinterpret_cast<ProgramObject*>(object);
  delete self->program;
  delete self->dims;
  delete self->aligned;
  delete self->axes;
  Py_TYPE(object)->tp_free(object);
}

PyObject* new_program(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *inputs, *constants, *code, *outputs, *dims, *axes;
  if (!PyArg_ParseTuple(args, "OOOOOO", &inputs, &constants, &code, &outputs, &dims, &axes)) return nullptr;
  return with_errors([&]() -> PyObject* {
    std::vector<Type> types;
    const Items input_items(inputs), constant_items(constants), code_items(code), output_items(outputs), dim_items(dims);
    for (int64_t i = 0; i < input_items.count; i++) types.push_back(type_of(input_items[i]));
    if (input_items.count > MOST_OPERANDS || dim_items.count != input_items.count) fail(PyExc_ValueError, "too many inputs, or not the dimensions of all");
    std::vector<std::pair<Type, uint64_t>> fixed;
    for (int64_t i = 0; i < constant_items.count; i++) {
      const Items pair(constant_items[i]);
      if (pair.count != 2) fail(PyExc_ValueError, "a constant is a dtype's code and a number");
      const Type own = type_of(pair[0]);
      fixed.push_back({own, bits_of(pair[1], own)});
    }
    std::vector<Instruction> instructions;
    if (code_items.count % 6) fail(PyExc_ValueError, "an instruction is six integers");
    for (int64_t i = 0; i < code_items.count; i += 6) {
      Instruction made{};
      const int64_t operation = integer_of(code_items[i]);
      if (operation < 0 || operation >= OPERATION_COUNT) fail(PyExc_ValueError, "no code of an operation");
      made.operation = static_cast<Operation>(operation);
      made.type = type_of(code_items[i + 1]), made.other = type_of(code_items[i + 2]);
      made.count = operands_of(made.operation);
      for (int n = 0; n < 3; n++) made.operands[n] = n < made.count ? integer_of(code_items[i + 3 + n]) : 0;
      instructions.push_back(made);
    }
    std::vector<Output> results;
    for (int64_t i = 0; i < output_items.count; i++) {
      const Items pair(output_items[i]);
      if (pair.count != 2) fail(PyExc_ValueError, "an output is a value's number and a reduction's code, or -1");
      const int64_t reduction = integer_of(pair[1]);
      if (reduction < -1 || reduction >= REDUCTION_COUNT) fail(PyExc_ValueError, "no code of a reduction");
      results.push_back({static_cast<int>(integer_of(pair[0])), static_cast<int>(reduction)});
    }
    auto program = std::make_unique<Program>(types, fixed, instructions, results);
    auto places = std::make_unique<std::vector<std::vector<int>>>();
    auto aligned = std::make_unique<std::vector<bool>>();
    for (int64_t i = 0; i < dim_items.count; i++) {
      aligned->push_back(dim_items[i] == Py_None);
      places->emplace_back();
      if (dim_items[i] == Py_None) continue;
      const Items own(dim_items[i]);
      for (int64_t d = 0; d < own.count; d++) {
        const int64_t place = integer_of(own[d]);
        if (place < 0 || place >= MOST_DIMENSIONS) fail(PyExc_ValueError, "no such dimension");
        places->back().push_back(place);
      }
    }
    auto along = std::make_unique<std::vector<int>>();
    const Items axis_items(axes);
    for (int64_t i = 0; i < axis_items.count; i++) along->push_back(integer_of(axis_items[i]));
    Owned made(type->tp_alloc(type, 0));
    if (!made) throw PythonError();
    ProgramObject* self = reinterpret_cast<ProgramObject*>(made.object);
    self->call = call_program;
    self->program = program.release(), self->dims = places.release(), self->aligned = aligned.release(), self->axes = along.release();
    return made.release();
  });
}

PyTypeObject program_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "ftorch.eager.native._kernels.Program";
  type.tp_basicsize = sizeof(ProgramObject);
  type.tp_dealloc = free_program;
  type.tp_vectorcall_offset = offsetof(ProgramObject, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_doc =
      "Program(input types, constants, code, outputs, dims, axes): an elementwise program; see ftorch.eager.host.native_calls.";
  type.tp_new = new_program;
  return type;
}();

// supports(operation, type, other): whether programs have it.
PyObject* supports(PyObject*, PyObject* args) {
  int operation, type, other;
  if (!PyArg_ParseTuple(args, "iii", &operation, &type, &other)) return nullptr;
  const bool known = operation >= 0 && operation < OPERATION_COUNT && type >= 0 && type < TYPES && other >= 0 && other < TYPES;
  return PyBool_FromLong(known && step_of(static_cast<Operation>(operation), static_cast<Type>(type), static_cast<Type>(other)));
}

PyObject* supports_reduction(PyObject*, PyObject* args) {
  int reduction, type;
  if (!PyArg_ParseTuple(args, "ii", &reduction, &type)) return nullptr;
  const bool known = reduction >= 0 && reduction < REDUCTION_COUNT && type >= 0 && type < TYPES;
  return PyBool_FromLong(known && reducer_of(static_cast<Reduction>(reduction), static_cast<Type>(type)));
}

PyObject* set_brain(PyObject*, PyObject* number) {
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  brain_number = value;
  Py_RETURN_NONE;
}

PyObject* set_threads(PyObject*, PyObject* count) {
  const long long value = PyLong_AsLongLong(count);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  set_own_threads(value);
  Py_RETURN_NONE;
}

PyObject* get_threads(PyObject*, PyObject*) { return PyLong_FromLongLong(count_own_threads()); }

}  // namespace

const Program* program_in(PyObject* object) {
  if (Py_TYPE(object) != &program_type) return nullptr;
  ProgramObject* self = reinterpret_cast<ProgramObject*>(object);
  for (const bool aligned : *self->aligned)
    if (!aligned) return nullptr;
  return self->program->reduces() ? nullptr : self->program;
}

bool is_of(Type type, int number) { return number == number_of(type) || (type == I64 && number == NPY_LONGLONG); }

bool encode_number(PyObject* object, Type type, uint64_t& bits) {
  try {
    if (type == F32 && PyLong_Check(object)) {  // rounded once
      bits = 0;
      put(&bits, static_cast<float>(integer_of(object)));
    } else {
      bits = bits_of(object, type);
    }
    return true;
  } catch (const PythonError&) {
    PyErr_Clear();
    return false;
  }
}

PyMethodDef program_methods[] = {
    {"supports", supports, METH_VARARGS, "supports(operation, type, other): whether programs have it."},
    {"supports_reduction", supports_reduction, METH_VARARGS, "supports_reduction(reduction, type)"},
    {"set_brain", set_brain, METH_O, "The number that NumPy has given to bfloat16."},
    {"set_threads", set_threads, METH_O, "How many threads a call may have; 0: as many as there are cores."},
    {"get_threads", get_threads, METH_NOARGS, "How many threads a call may have."},
    {nullptr, nullptr, 0, nullptr}};

bool add_program_type(PyObject* module) {
  if (PyType_Ready(&program_type) < 0) return false;
  Py_INCREF(&program_type);
  return PyModule_AddObject(module, "Program", reinterpret_cast<PyObject*>(&program_type)) == 0;
}

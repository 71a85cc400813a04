// Handlers of XLA's custom calls as objects that Python calls by themselves: the frame of the call is made here.

#include "objects/arrays.h"
#include "calls.h"
#include "module.h"
#include "threads/own_threads.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#define HANDLERS(use) \
  use(multiply) use(multiply_narrow) use(multiply_bytes) use(multiply_bfloat16) use(multiply_sparse) \
  use(multiply_weights8) use(multiply_weights4) use(linear_dynamic) \
  use(outer) use(convolve) use(convolve_pairs) use(weight_gradient) \
  use(scan) use(sort) use(top) use(select) use(lstm) use(lstm_gradient) use(attention) use(attention_gradient) \
  use(attention_mask_gradient) use(take) use(add) use(add_to_zeros) use(bags) use(extremum) use(softmax) use(softmax_gradient) use(layer_norm) \
  use(layer_norm_gradient) use(sum) use(max_pool) use(max_pool_gradient) use(group) \
  use(elementwise) use(zero)

#define DECLARE(name) extern "C" XLA_FFI_Error* ftorch_##name(XLA_FFI_CallFrame*);
HANDLERS(DECLARE)
#undef DECLARE

namespace {

constexpr int64_t WORTH_UNLOCKING = 1 << 14;  // elements of operands and results

struct Attribute {
  std::string name;
  XLA_FFI_ByteSpan span;
  char kind;  // as in `struct`: "q" integers, "i" one integer, "f" a float, "d" a double
  size_t place;  // among those that calls give
};

struct HandlerObject {
  PyObject_HEAD
  vectorcallfunc call;
  XLA_FFI_Handler* handler;
  std::vector<Attribute>* attributes;  // by name
};

XLA_FFI_DataType data_type(PyArrayObject* array) {
  const int number = PyArray_TYPE(array);
  switch (number) {
    case NPY_BOOL: return XLA_FFI_DataType_PRED;
    case NPY_INT8: return XLA_FFI_DataType_S8;
    case NPY_UINT8: return XLA_FFI_DataType_U8;
    case NPY_INT16: return XLA_FFI_DataType_S16;
    case NPY_UINT16: return XLA_FFI_DataType_U16;
    case NPY_INT32: return XLA_FFI_DataType_S32;
    case NPY_UINT32: return XLA_FFI_DataType_U32;
    case NPY_LONG: case NPY_LONGLONG: return XLA_FFI_DataType_S64;
    case NPY_ULONG: case NPY_ULONGLONG: return XLA_FFI_DataType_U64;
    case NPY_HALF: return XLA_FFI_DataType_F16;
    case NPY_FLOAT: return XLA_FFI_DataType_F32;
    case NPY_DOUBLE: return XLA_FFI_DataType_F64;
    case NPY_CFLOAT: return XLA_FFI_DataType_C64;
    case NPY_CDOUBLE: return XLA_FFI_DataType_C128;
  }
  if (PyArray_ITEMSIZE(array) == 2) return XLA_FFI_DataType_BF16;  // moved, not computed with
  if (PyArray_ITEMSIZE(array) == 1) return XLA_FFI_DataType_F8E5M2;
  fail(PyExc_TypeError, "a dtype that kernels do not have");
}

struct Buffers {
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<void*> places;
  std::vector<XLA_FFI_ArgType> types;
  std::vector<int64_t> dims;
  int64_t elements = 0;

  explicit Buffers(const Items& arrays) {
    size_t all = 0;
    for (int64_t i = 0; i < arrays.count; i++) all += PyArray_NDIM(array_of(arrays[i]));
    dims.reserve(all), buffers.reserve(arrays.count);
    for (int64_t i = 0; i < arrays.count; i++) {
      PyArrayObject* array = array_of(arrays[i]);
      int64_t* own = dims.data() + dims.size();
      for (int d = 0; d < PyArray_NDIM(array); d++) dims.push_back(PyArray_DIM(array, d));
      buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, data_type(array), PyArray_DATA(array), PyArray_NDIM(array), own});
      places.push_back(&buffers.back());
      types.push_back(XLA_FFI_ArgType_BUFFER);
      elements += PyArray_SIZE(array);
    }
  }
};

// Lets the handler write results; throws with Python's error.
void run_handler(HandlerObject* self, const Items& given, const Items& written, const Items& values) {
  Buffers operands{given}, results{written};
  for (int64_t i = 0; i < written.count; i++)
    if (!PyArray_ISCARRAY(array_of(written[i]))) fail(PyExc_ValueError, "a result that is not dense, or not to be written");
  const std::vector<Attribute>& attributes = *self->attributes;
  const size_t count = attributes.size();
  if (values.count != static_cast<int64_t>(count)) fail(PyExc_TypeError, "another number of attributes than the handler's");
  std::vector<int64_t> integers;
  size_t all = 0;
  for (const Attribute& a : attributes) all += a.kind == 'q' ? Items(values[a.place]).count : 1;
  integers.reserve(all);
  std::vector<XLA_FFI_Array> arrays(count);
  std::vector<XLA_FFI_Scalar> scalars(count);
  std::vector<XLA_FFI_AttrType> types(count);
  std::vector<XLA_FFI_ByteSpan*> spans(count);
  std::vector<void*> places(count);
  for (size_t i = 0; i < count; i++) {
    const Attribute& a = attributes[i];
    PyObject* value = values[a.place];
    int64_t* own = integers.data() + integers.size();
    spans[i] = const_cast<XLA_FFI_ByteSpan*>(&a.span);
    if (a.kind == 'q') {
      const Items items(value);
      for (int64_t k = 0; k < items.count; k++) integers.push_back(integer_of(items[k]));
      arrays[i] = {XLA_FFI_DataType_S64, static_cast<size_t>(items.count), own};
      types[i] = XLA_FFI_AttrType_ARRAY, places[i] = &arrays[i];
      continue;
    }
    if (a.kind == 'i') {
      integers.push_back(integer_of(value));
      scalars[i] = {XLA_FFI_DataType_S64, own};
    } else {
      const double number = PyFloat_AsDouble(value);
      if (number == -1 && PyErr_Occurred()) throw PythonError();
      const float narrow = static_cast<float>(number);
      integers.push_back(0);
      if (a.kind == 'd') std::memcpy(own, &number, sizeof number);
      else std::memcpy(own, &narrow, sizeof narrow);
      scalars[i] = {a.kind == 'd' ? XLA_FFI_DataType_F64 : XLA_FFI_DataType_F32, own};
    }
    types[i] = XLA_FFI_AttrType_SCALAR, places[i] = &scalars[i];
  }
  std::vector<XLA_FFI_RetType> result_types(results.types.size(), XLA_FFI_RetType_BUFFER);
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = own_api();
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, static_cast<int64_t>(operands.types.size()), operands.types.data(), operands.places.data()};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, static_cast<int64_t>(result_types.size()), result_types.data(), results.places.data()};
  frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, static_cast<int64_t>(count), types.data(), spans.data(), places.data()};
  XLA_FFI_Error* error;
  {
    Unlocked unlocked(operands.elements + results.elements > WORTH_UNLOCKING);
    DirectCall direct;
    error = self->handler(&frame);
  }
  if (error) {
    const std::string message = take_message(error);
    if (PyErr_Occurred()) throw PythonError();  // of a signal's handler
    const bool memory = message.find("out of memory") != std::string::npos;
    fail(memory ? PyExc_MemoryError : PyExc_RuntimeError, message.c_str());
  }
}

PyObject* call_handler(PyObject* callable, PyObject* const* given, size_t flags, PyObject* names) {
  return with_errors([&]() -> PyObject* {
    if (names || PyVectorcall_NARGS(flags) != 3) fail(PyExc_TypeError, "handler(operands, results, attributes)");
    run_handler(reinterpret_cast<HandlerObject*>(callable), Items(given[0]), Items(given[1]), Items(given[2]));
    Py_RETURN_NONE;
  });
}

void free_handler(PyObject* object) {
  delete reinterpret_cast<HandlerObject*>(object)->attributes;
  Py_TYPE(object)->tp_free(object);
}

PyObject* new_handler(PyTypeObject* type, PyObject* args, PyObject*) {
  const char *name, *kinds;
  PyObject* names;
  if (!PyArg_ParseTuple(args, "sOs", &name, &names, &kinds)) return nullptr;
  return with_errors([&]() -> PyObject* {
    XLA_FFI_Handler* handler = nullptr;
#define FIND(own) if (!std::strcmp(name, "ftorch_" #own)) handler = ftorch_##own;
    HANDLERS(FIND)
#undef FIND
    if (!handler) fail(PyExc_ValueError, "no such handler");
    const Items items(names);
    if (static_cast<int64_t>(std::strlen(kinds)) != items.count) fail(PyExc_ValueError, "a kind is wanted for each attribute");
    auto attributes = std::make_unique<std::vector<Attribute>>();
    for (int64_t i = 0; i < items.count; i++) {
      const char* own = PyUnicode_AsUTF8(items[i]);
      if (!own) throw PythonError();
      attributes->push_back({own, {}, kinds[i], static_cast<size_t>(i)});
    }
    std::sort(attributes->begin(), attributes->end(), [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
    for (Attribute& a : *attributes) a.span = {a.name.data(), a.name.size()};
    Owned made(type->tp_alloc(type, 0));
    if (!made) throw PythonError();
    HandlerObject* self = reinterpret_cast<HandlerObject*>(made.object);
    self->call = call_handler, self->handler = handler, self->attributes = attributes.release();
    return made.release();
  });
}

PyTypeObject handler_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "ftorch.eager.native._kernels.Handler";
  type.tp_basicsize = sizeof(HandlerObject);
  type.tp_dealloc = free_handler;
  type.tp_vectorcall_offset = offsetof(HandlerObject, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_doc = "Handler(name, attributes, kinds): a custom call's; handler(operands, results, attributes) writes the results.";
  type.tp_new = new_handler;
  return type;
}();

// A call of a handler that came before: with arrays laid out as those it makes results as that one did.
struct PreparedObject {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *handler, *values;  // what calls it, and the attributes
  PyObject *given;             // what the arrays and what comes behind them have to be: arrays like them, or equal
  PyObject *taken, *made;      // places of the operands; (shape, dtype) of each result
  bool many;                   // whether a tuple of results is wanted
};

bool is_like(PyObject* object, PyObject* noted) {
  if (object == noted) return true;
  if (PyTuple_CheckExact(noted) && PyTuple_GET_SIZE(noted) == 2 && PyArray_DescrCheck(PyTuple_GET_ITEM(noted, 1))) {
    if (!PyArray_CheckExact(object)) return false;
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
    const Items shape(PyTuple_GET_ITEM(noted, 0));
    if (!PyArray_ISCARRAY_RO(array) || PyArray_NDIM(array) != shape.count) return false;
    if (PyArray_TYPE(array) != reinterpret_cast<PyArray_Descr*>(PyTuple_GET_ITEM(noted, 1))->type_num) return false;
    for (int64_t d = 0; d < shape.count; d++)
      if (PyArray_DIM(array, d) != integer_of(shape[d])) return false;
    return true;
  }
  const int equal = PyObject_RichCompareBool(object, noted, Py_EQ);
  if (equal < 0) throw PythonError();
  return equal;
}

PyObject* call_prepared(PyObject* callable, PyObject* const* given, size_t flags, PyObject* names) {
  return with_errors([&]() -> PyObject* {
    PreparedObject* self = reinterpret_cast<PreparedObject*>(callable);
    const Items noted(self->given), taken(self->taken), made(self->made);
    if (names) fail(PyExc_TypeError, "prepared(*arrays, *sizes)");
    if (PyVectorcall_NARGS(flags) != noted.count) Py_RETURN_NONE;
    for (int64_t i = 0; i < noted.count; i++)
      if (!is_like(given[i], noted[i])) Py_RETURN_NONE;
    Owned operands(PyTuple_New(taken.count)), results(PyTuple_New(made.count));
    if (!operands || !results) throw PythonError();
    for (int64_t i = 0; i < taken.count; i++) PyTuple_SET_ITEM(operands.object, i, Py_NewRef(given[integer_of(taken[i])]));
    for (int64_t i = 0; i < made.count; i++) {
      const Items sizes(PyTuple_GET_ITEM(made[i], 0));
      npy_intp shape[NPY_MAXDIMS];
      for (int64_t d = 0; d < sizes.count; d++) shape[d] = integer_of(sizes[d]);
      const int type = reinterpret_cast<PyArray_Descr*>(PyTuple_GET_ITEM(made[i], 1))->type_num;
      PyTuple_SET_ITEM(results.object, i, new_array(sizes.count, shape, type).release());
    }
    run_handler(reinterpret_cast<HandlerObject*>(self->handler), Items(operands.object), Items(results.object), Items(self->values));
    return self->many ? results.release() : Py_NewRef(PyTuple_GET_ITEM(results.object, 0));
  });
}

void free_prepared(PyObject* object) {
  PreparedObject* self = reinterpret_cast<PreparedObject*>(object);
  for (PyObject* own : {self->handler, self->values, self->given, self->taken, self->made}) Py_XDECREF(own);
  Py_TYPE(object)->tp_free(object);
}

PyObject* new_prepared(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *handler, *values, *given, *taken, *made;
  int many;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O!p", &handler_type, &handler, &PyTuple_Type, &values, &PyTuple_Type, &given,
                        &PyTuple_Type, &taken, &PyTuple_Type, &made, &many)) return nullptr;
  return with_errors([&]() -> PyObject* {
    const Items places(taken), results(made);
    for (int64_t i = 0; i < places.count; i++)
      if (const int64_t place = integer_of(places[i]); place < 0 || place >= PyTuple_GET_SIZE(given)) fail(PyExc_ValueError, "no such array");
    for (int64_t i = 0; i < results.count; i++) {
      PyObject *shape, *dtype;
      if (!PyArg_ParseTuple(results[i], "O!O!", &PyTuple_Type, &shape, &PyArrayDescr_Type, &dtype)) throw PythonError();
      if (PyTuple_GET_SIZE(shape) > NPY_MAXDIMS) fail(PyExc_ValueError, "too many dimensions");
    }
    if (!many && PyTuple_GET_SIZE(made) != 1) fail(PyExc_ValueError, "one result is wanted");
    Owned object(type->tp_alloc(type, 0));
    if (!object) throw PythonError();
    PreparedObject* self = reinterpret_cast<PreparedObject*>(object.object);
    self->call = call_prepared, self->many = many;
    self->handler = Py_NewRef(handler), self->values = Py_NewRef(values), self->given = Py_NewRef(given);
    self->taken = Py_NewRef(taken), self->made = Py_NewRef(made);
    return object.release();
  });
}

PyTypeObject prepared_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "ftorch.eager.native._kernels.Prepared";
  type.tp_basicsize = sizeof(PreparedObject);
  type.tp_dealloc = free_prepared;
  type.tp_vectorcall_offset = offsetof(PreparedObject, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_doc =
      "Prepared(handler, attributes, given, taken, made, many): prepared(*given) gives a handler's results, or None where an "
      "array is not dense and of the (shape, dtype) in its place of `given`, or a size behind the arrays is another one.";
  type.tp_new = new_prepared;
  return type;
}();

}  // namespace

bool add_handler_type(PyObject* module) {
  if (PyType_Ready(&handler_type) < 0 || PyType_Ready(&prepared_type) < 0) return false;
  return PyModule_AddObjectRef(module, "Handler", reinterpret_cast<PyObject*>(&handler_type)) == 0 &&
         PyModule_AddObjectRef(module, "Prepared", reinterpret_cast<PyObject*>(&prepared_type)) == 0;
}

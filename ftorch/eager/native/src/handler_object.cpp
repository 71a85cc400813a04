// Handlers of XLA's custom calls as objects that Python calls by themselves: the frame of the call is made here.

#include "arrays.h"
#include "calls.h"
#include "module.h"
#include "own_threads.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#define HANDLERS(use) \
  use(multiply) use(multiply_narrow) use(multiply_bytes) use(multiply_sparse) use(multiply_weights8) \
  use(multiply_weights4) use(outer) use(convolve) use(weight_gradient) \
  use(scan) use(sort) use(top) use(select) use(lstm) use(lstm_gradient) use(attention) use(attention_gradient) use(take) \
  use(add) use(add_to_zeros) use(bags) use(extremum) use(softmax) use(softmax_gradient) use(layer_norm) \
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
  char kind;  // as in `struct`: "q" integers, "i" one integer, "f" a float
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

PyObject* call_handler(PyObject* callable, PyObject* const* given, size_t flags, PyObject* names) {
  return with_errors([&]() -> PyObject* {
    HandlerObject* self = reinterpret_cast<HandlerObject*>(callable);
    if (names || PyVectorcall_NARGS(flags) != 3) fail(PyExc_TypeError, "handler(operands, results, attributes)");
    Buffers operands{Items(given[0])}, results{Items(given[1])};
    const Items written(given[1]);
    for (int64_t i = 0; i < written.count; i++)
      if (!PyArray_ISCARRAY(array_of(written[i]))) fail(PyExc_ValueError, "a result that is not dense, or not to be written");
    const Items values(given[2]);
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
        std::memcpy(own, &narrow, sizeof narrow);
        scalars[i] = {XLA_FFI_DataType_F32, own};
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
      const bool memory = message.find("out of memory") != std::string::npos;
      PyErr_SetString(memory ? PyExc_MemoryError : PyExc_RuntimeError, message.c_str());
      return nullptr;
    }
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

}  // namespace

bool add_handler_type(PyObject* module) {
  if (PyType_Ready(&handler_type) < 0) return false;
  Py_INCREF(&handler_type);
  return PyModule_AddObject(module, "Handler", reinterpret_cast<PyObject*>(&handler_type)) == 0;
}

#include "objects/arrays.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace {

constexpr int64_t ALIGNMENT = 64, SMALL = 1024, HUGE = 1 << 22, HUGE_PAGE = 1 << 21;
constexpr int64_t SPARE = 32 << 20;  // bytes that may wait for arrays beyond the most that were in use

// Memory of arrays that are gone, by size: a page that is new costs the kernel more than what most calls write to it.
// What waits and what is used together stay below what was used at most, lately, and a little: so reuse does not add to
// the memory that the process needs. Under Python's lock.
class Kept {
 public:
  // At least `size` bytes, `size` made what it really is.
  void* take(int64_t& size) {
    const int index = class_of(size);
    size = size_of(index);
    used += size;
    if (used > most) most = used;
    else if (size >= HUGE) most -= (most - used) / 64;
    auto& own = free[index];
    if (!own.empty()) {
      void* found = own.back();
      own.pop_back();
      waiting -= size;
      return found;
    }
    shrink();
    const bool huge = size >= HUGE;
    void* made = std::aligned_alloc(huge ? HUGE_PAGE : ALIGNMENT, huge ? (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE : size);
    if (!made) {
      release();
      made = std::aligned_alloc(ALIGNMENT, size);
    }
    if (!made) {
      used -= size;
      throw std::bad_alloc();
    }
#ifdef __linux__
    if (huge) madvise(made, size, MADV_HUGEPAGE);
#endif
    return made;
  }

  void give(void* data, int64_t size) {
    used -= size, waiting += size;
    free[class_of(size)].push_back(data);
    shrink();
  }

  void release() {
    for (auto& own : free) {
      for (void* data : own) std::free(data);
      own.clear();
    }
    waiting = 0;
  }

  int64_t used = 0, waiting = 0, most = 0;

 private:
  static constexpr int STEPS = 8;  // sizes from one power of two to the next
  std::vector<void*> free[16 + 54 * STEPS];

  static int class_of(int64_t size) {
    if (size <= SMALL) return std::max<int64_t>(0, (size - 1) / ALIGNMENT);
    const int power = 63 - __builtin_clzll(size - 1);  // 2^power <= size - 1
    return 16 + (power - 10) * STEPS + (((size - 1) >> (power - 3)) - STEPS);
  }
  static int64_t size_of(int index) {
    if (index < 16) return (index + 1) * ALIGNMENT;
    const int power = (index - 16) / STEPS + 10, step = (index - 16) % STEPS;
    return (int64_t{STEPS + step + 1}) << (power - 3);
  }

  void shrink() {  // the largest first
    for (int i = std::size(free) - 1; i >= 0 && used + waiting > most + SPARE && waiting > 0; i--)
      while (!free[i].empty() && used + waiting > most + SPARE) {
        std::free(free[i].back());
        free[i].pop_back();
        waiting -= size_of(i);
      }
  }
};

Kept& kept() {
  static Kept& kept = *new Kept;
  return kept;
}

// What an array's `base` is: it gives the memory back.
struct Memory {
  PyObject_HEAD
  void* data;
  int64_t size;
};

void free_memory(PyObject* self) {
  Memory* memory = reinterpret_cast<Memory*>(self);
  kept().give(memory->data, memory->size);
  PyObject_Free(self);
}

PyTypeObject memory_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "ftorch.eager.native._kernels.Memory";
  type.tp_basicsize = sizeof(Memory);
  type.tp_dealloc = free_memory;
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_doc = "Memory of an array that a kernel made.";
  return type;
}();

PyObject* memory_state(PyObject*, PyObject*) {
  return Py_BuildValue("(LLL)", (long long)kept().used, (long long)kept().waiting, (long long)kept().most);
}

PyObject* release_memory(PyObject*, PyObject*) {
  kept().release();
  Py_RETURN_NONE;
}

PyObject* empty(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return with_errors([&]() -> PyObject* {
    if (count != 2) fail(PyExc_TypeError, "empty(shape, dtype)");
    const Items shape(given[0]);
    if (shape.count > NPY_MAXDIMS) fail(PyExc_ValueError, "too many dimensions");
    npy_intp sizes[NPY_MAXDIMS];
    for (int64_t d = 0; d < shape.count; d++)
      if ((sizes[d] = integer_of(shape[d])) < 0) fail(PyExc_ValueError, "negative size");
    if (!PyArray_DescrCheck(given[1])) fail(PyExc_TypeError, "expected a dtype of NumPy's");
    return new_array(shape.count, sizes, reinterpret_cast<PyArray_Descr*>(given[1])->type_num).release();
  });
}

}  // namespace

PyMethodDef memory_methods[] = {
    {"memory_state", memory_state, METH_NOARGS, "Bytes: in arrays, waiting for arrays, in arrays at most (lately)."},
    {"release_memory", release_memory, METH_NOARGS, "Gives back what waits for arrays."},
    {"empty", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(empty)), METH_FASTCALL,
     "empty(shape, dtype): a new dense array, aligned to 64 bytes."},
    {nullptr, nullptr, 0, nullptr}};

Owned new_array(int rank, const npy_intp* shape, int type_number) {
  PyArray_Descr* type = PyArray_DescrFromType(type_number);
  if (!type) throw PythonError();
  int64_t size = PyDataType_ELSIZE(type);
  for (int d = 0; d < rank; d++) size *= shape[d];
  size = std::max<int64_t>(size, 1);
  Memory* memory = PyObject_New(Memory, &memory_type);
  if (!memory) {
    Py_DECREF(type);
    throw PythonError();
  }
  try {
    memory->data = kept().take(size);
  } catch (...) {
    PyObject_Free(memory);
    Py_DECREF(type);
    throw;
  }
  memory->size = size;
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, type, rank, shape, nullptr, memory->data,
                                         NPY_ARRAY_CARRAY, nullptr);  // takes the dtype's reference
  if (!array || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), reinterpret_cast<PyObject*>(memory)) < 0) {
    if (!array) Py_DECREF(memory);
    Py_XDECREF(array);
    throw PythonError();
  }
  return Owned(array);
}

bool add_memory_type(PyObject*) { return PyType_Ready(&memory_type) == 0; }

bool was_sent_an_exception() {
  static PyObject* nothing = nullptr;  // with Python's lock
  if (!nothing) {
    Owned scope{PyDict_New()};
    if (scope) nothing = PyRun_String("lambda: None", Py_eval_input, scope.object, scope.object);
    if (!nothing) return true;
  }
  PyObject* result = PyObject_CallNoArgs(nothing);
  Py_XDECREF(result);
  return !result;
}

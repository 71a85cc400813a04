// Few random numbers at once, from the words of a generator of NumPy's: the arithmetic of `ftorch.eager.sampling`, where
// calls of NumPy's would cost more than the numbers do.
#include <numpy/random/bitgen.h>

#include <cmath>
#include <vector>

#include "objects/arrays.h"
#include "codes.h"
#include "module.h"

// A sum and a product are two roundings here, a fused multiply-add is asked for by name.
#pragma GCC optimize("fp-contract=off")

extern "C" void ftorch_normal(const uint32_t* words, int64_t count, float mean, float std, float* out);

namespace {

enum Draw { DRAWS(ENUMERATOR) };

struct Words {
  bitgen_t* bits;

  explicit Words(PyObject* capsule)
      : bits(static_cast<bitgen_t*>(PyCapsule_GetPointer(capsule, "BitGenerator"))) {
    if (!bits) throw PythonError();
  }
  uint32_t next() const { return bits->next_uint32(bits->state); }
  uint64_t next_long() const {  // the first word drawn is the high one
    const uint64_t high = next();
    return high << 32 | next();
  }
  double uniform() const { return double(next_long() & ((uint64_t(1) << 53) - 1)) * 0x1p-53; }
  float uniform_float() const { return float(int32_t(next() & 0xFFFFFF)) * 0x1p-24f; }
};

struct Made {
  Owned array;
  int64_t count;
  void* data;

  Made(PyObject* shape, int type_number) {
    const Items sizes(shape);
    if (sizes.count > NPY_MAXDIMS) fail(PyExc_ValueError, "too many dimensions");
    npy_intp dims[NPY_MAXDIMS];
    count = 1;
    for (int64_t i = 0; i < sizes.count; i++) count *= dims[i] = integer_of(sizes[i]);
    array = new_array(int(sizes.count), dims, type_number);
    if (!array) throw PythonError();
    data = PyArray_DATA(array_of(array.object));
  }
  template <typename Number, typename Next>
  void fill(const Next& next) const {
    for (int64_t i = 0; i < count; i++) static_cast<Number*>(data)[i] = next();
  }
};

double number_of(PyObject* object) {
  const double value = PyFloat_AsDouble(object);
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

void uniform(const Words& words, const Made& made, float low, float high) {
  const float width = high - low;
  const bool whole = low == 0 && high == 1;
  made.fill<float>([&] {
    const float u = words.uniform_float();
    if (whole) return u;
    const float value = std::fma(u, width, low);
    return value == high ? low : value;  // rounding may reach the excluded bound
  });
}

void uniform(const Words& words, const Made& made, double low, double high) {
  const double width = high - low;
  const bool whole = low == 0 && high == 1;
  made.fill<double>([&] {
    const double value = std::fma(words.uniform(), width, low);
    return !whole && value == high ? low : value;
  });
}

void integers(const Words& words, const Made& made, int64_t low, int64_t span) {
  made.fill<int64_t>([&] { return low + int64_t(words.next() % uint32_t(span)); });
}

void permutation(const Words& words, const Made& made) {
  int64_t* values = static_cast<int64_t*>(made.data);
  for (int64_t i = 0; i < made.count; i++) values[i] = i;
  for (int64_t i = 0; i + 1 < made.count; i++) std::swap(values[i], values[i + words.next() % uint32_t(made.count - i)]);
}

void coins(const Words& words, const Made& made, double p) {
  const double below = std::ceil(p * 0x1p53);
  made.fill<float>([&] { return double(words.next_long() & ((uint64_t(1) << 53) - 1)) < below ? 1.0f : 0.0f; });
}

// draw(capsule of the generator, kind, shape, a, b): an array, dense.
PyObject* draw(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return with_errors([&] {
    if (count != 5) fail(PyExc_TypeError, "draw takes 5 arguments");
    const Words words(args[0]);
    const int64_t kind = integer_of(args[1]);
    const bool whole = kind == INTEGER || kind == PERMUTATION;
    Made made(args[2], whole ? NPY_INT64 : kind == UNIFORM64 ? NPY_FLOAT64 : NPY_FLOAT32);
    switch (kind) {
      case UNIFORM32: uniform(words, made, float(number_of(args[3])), float(number_of(args[4]))); break;
      case UNIFORM64: uniform(words, made, number_of(args[3]), number_of(args[4])); break;
      case INTEGER: integers(words, made, integer_of(args[3]), integer_of(args[4])); break;
      case PERMUTATION: permutation(words, made); break;
      case COIN: coins(words, made, number_of(args[3])); break;
      default: fail(PyExc_ValueError, "an unknown kind of draw");
    }
    return made.array.release();
  });
}

// draw_normals(capsule, shape, is_double, mean, std, the normal number that was left over or None):
// (array, the next one left over or None). Two at a time, by Box and Muller's transform in float64.
PyObject* draw_normals(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return with_errors([&] {
    if (count != 6) fail(PyExc_TypeError, "draw_normals takes 6 arguments");
    const Words words(args[0]);
    const bool wide = PyObject_IsTrue(args[2]);
    Made made(args[1], wide ? NPY_FLOAT64 : NPY_FLOAT32);
    const double mean = number_of(args[3]), std = number_of(args[4]);
    bool has_left = args[5] != Py_None;
    double left = has_left ? number_of(args[5]) : 0;
    const auto next = [&] {
      double value = left;
      if ((has_left = !has_left)) {
        const double u1 = words.uniform(), u2 = words.uniform();
        const double radius = std::sqrt(-2.0 * std::log1p(-u2)), angle = 2.0 * M_PI * u1;
        value = radius * std::cos(angle), left = radius * std::sin(angle);
      }
      return std::fma(value, std, mean);
    };
    if (wide) made.fill<double>(next);
    else made.fill<float>([&] { return float(next()); });
    return Py_BuildValue("(NN)", made.array.release(), has_left ? PyFloat_FromDouble(left) : Py_NewRef(Py_None));
  });
}

// draw_normal_blocks(capsule, shape, mean, std): float32 numbers, at least 16. What is left over from groups of 16 is not
// made into a short group: the last 16 values are drawn anew, after all the others.
PyObject* draw_normal_blocks(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return with_errors([&] {
    if (count != 4) fail(PyExc_TypeError, "draw_normal_blocks takes 4 arguments");
    const Words words(args[0]);
    Made made(args[1], NPY_FLOAT32);
    if (made.count < 16) fail(PyExc_ValueError, "at least 16 numbers");
    const float mean = float(number_of(args[2])), std = float(number_of(args[3]));
    float* out = static_cast<float*>(made.data);
    std::vector<uint32_t> drawn(made.count);
    for (uint32_t& word : drawn) word = words.next();
    const int64_t whole = made.count / 16 * 16;
    ftorch_normal(drawn.data(), whole, mean, std, out);
    if (whole < made.count) {
      for (int i = 0; i < 16; i++) drawn[i] = words.next();
      ftorch_normal(drawn.data(), 16, mean, std, out + made.count - 16);
    }
    return made.array.release();
  });
}

#define FAST(function) reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL

}  // namespace

PyMethodDef draw_methods[] = {
    {"draw", FAST(draw), "draw(capsule, kind, shape, a, b): numbers of codes.h's kinds"},
    {"draw_normals", FAST(draw_normals), "draw_normals(capsule, shape, is_double, mean, std, left): (array, left)"},
    {"draw_normal_blocks", FAST(draw_normal_blocks), "draw_normal_blocks(capsule, shape, mean, std): at least 16"},
    {nullptr, nullptr, 0, nullptr}};

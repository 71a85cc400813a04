// Products (`dot_general`) of float32 as objects that Python calls.

#include "objects/arrays.h"
#include "module.h"
#include "threads/own_threads.h"
#include "products/product.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr double WORTH_UNLOCKING = 4e5;  // operations

struct ProductObject {
  PyObject_HEAD
  vectorcallfunc call;
  std::vector<int>* sums[2];     // dimensions of each operand
  std::vector<int>* batches[2];
};

// A dimension of a product: how far apart its elements lie in the operands and the result; 0 in what does not have it.
struct Dim {
  int64_t size, left, right, out;
};

bool is_in(const std::vector<int>& all, int d) { return std::find(all.begin(), all.end(), d) != all.end(); }

// Dims, from the outermost on, those that continue each other joined.
std::vector<Dim> merged(const std::vector<Dim>& dims) {
  std::vector<Dim> found;
  for (const Dim& d : dims) {
    if (!found.empty()) {
      Dim& before = found.back();
      if (before.left == d.size * d.left && before.right == d.size * d.right && before.out == d.size * d.out) {
        before = {before.size * d.size, d.left, d.right, d.out};
        continue;
      }
    }
    found.push_back(d);
  }
  return found;
}

// Takes the last dimensions that belong, as far as they lie behind each other.
template <typename Belongs>
bool innermost(std::vector<Dim>& dims, Dim& one, const Belongs& belongs) {
  std::vector<Dim> chosen, others;
  for (const Dim& d : dims) (belongs(d) ? chosen : others).push_back(d);
  if (chosen.empty()) return false;
  chosen = merged(chosen);
  one = chosen.back();
  others.insert(others.end(), chosen.begin(), chosen.end() - 1);
  std::stable_sort(others.begin(), others.end(), [](const Dim& a, const Dim& b) { return a.out > b.out; });
  dims = others;
  return true;
}

struct Plan {
  Product product;
  bool swapped;  // the operands change places
  std::vector<Dim> outer;  // loops around the product's own two
};

// How a product is made; false: its operands must be made dense first.
bool plan(std::vector<Dim> dims, std::vector<Dim> terms, Plan& found) {
  const auto is_one = [](const Dim& d) { return d.size == 1; };
  dims.erase(std::remove_if(dims.begin(), dims.end(), is_one), dims.end());
  terms.erase(std::remove_if(terms.begin(), terms.end(), is_one), terms.end());
  std::stable_sort(terms.begin(), terms.end(), [](const Dim& a, const Dim& b) { return a.left > b.left; });
  terms = merged(terms);
  if (terms.size() > 1) return false;
  Dim term = terms.empty() ? Dim{1, 1, 1, 0} : terms[0], column{1, 0, 1, 1}, row{1, 0, 0, 0};
  // The columns are the result's last dimension.
  found.swapped = !dims.empty() && dims.back().right == 0 && dims.back().left != 0;
  if (found.swapped) {
    for (Dim& d : dims) std::swap(d.left, d.right);
    std::swap(term.left, term.right);
  }
  if (!dims.empty() && dims.back().left == 0) {  // else there are batches only
    innermost(dims, column, [](const Dim& d) { return d.left == 0; });
    innermost(dims, row, [](const Dim& d) { return d.right == 0; });
  }
  if (column.out != 1) return false;
  if (row.size > 1 && row.left != 1 && term.left != 1) return false;
  found.outer = merged(dims);
  const int64_t more = found.outer.size();
  const Dim none{1, 0, 0, 0}, u = more > 1 ? found.outer[more - 2] : none, v = more > 0 ? found.outer[more - 1] : none;
  found.outer.resize(std::max<int64_t>(0, more - 2));
  found.product = {{row.size, column.size, term.size}, {u.size, v.size}, {u.left, v.left, row.left, term.left},
                   {u.right, v.right, term.right, column.right}, {u.out, v.out, row.out}};
  return true;
}

// The operand with its batches, other dimensions and sums in this order, dense.
Owned dense(PyArrayObject* array, const std::vector<int>& batches, const std::vector<int>& sums) {
  npy_intp order[NPY_MAXDIMS];
  int count = 0;
  for (const int d : batches) order[count++] = d;
  for (int d = 0; d < PyArray_NDIM(array); d++)
    if (!is_in(batches, d) && !is_in(sums, d)) order[count++] = d;
  for (const int d : sums) order[count++] = d;
  PyArray_Dims permutation{order, count};
  Owned turned(PyArray_Transpose(array, &permutation));
  if (!turned) throw PythonError();
  Owned made(PyArray_NewCopy(reinterpret_cast<PyArrayObject*>(turned.object), NPY_CORDER));
  if (!made) throw PythonError();
  return made;
}

void run(const Plan& plan, const float* a, const float* b, float* c, size_t loop = 0) {
  if (loop < plan.outer.size()) {
    const Dim& d = plan.outer[loop];
    for (int64_t i = 0; i < d.size; i++) run(plan, a + i * d.left, b + i * d.right, c + i * d.out, loop + 1);
    return;
  }
  if (plan.product.sizes[2] == 1) multiply_outer(own_threads(), plan.product, a, b, c);
  else multiply(own_threads(), plan.product, a, b, c);
}

PyObject* call_product(PyObject* callable, PyObject* const* given, size_t flags, PyObject* names) {
  return with_errors([&]() -> PyObject* {
    const ProductObject* self = reinterpret_cast<ProductObject*>(callable);
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (names || count < 2 || count > 3) fail(PyExc_TypeError, "product(a, b, out=None)");
    PyArrayObject* arrays[2];
    std::vector<int> sums[2], batches[2];
    for (int k : {0, 1}) {
      arrays[k] = array_of(given[k]);
      sums[k] = *self->sums[k], batches[k] = *self->batches[k];
      if (PyArray_TYPE(arrays[k]) != NPY_FLOAT || !PyArray_ISNOTSWAPPED(arrays[k])) fail(PyExc_TypeError, "expected arrays of float32");
      for (const auto& dims : {sums[k], batches[k]})
        for (const int d : dims)
          if (d < 0 || d >= PyArray_NDIM(arrays[k])) fail(PyExc_ValueError, "no such dimension");
    }
    std::vector<npy_intp> shape;
    for (size_t i = 0; i < sums[0].size(); i++)
      if (PyArray_DIM(arrays[0], sums[0][i]) != PyArray_DIM(arrays[1], sums[1][i])) fail(PyExc_ValueError, "sums of different lengths");
    for (size_t i = 0; i < batches[0].size(); i++) {
      shape.push_back(PyArray_DIM(arrays[0], batches[0][i]));
      if (shape.back() != PyArray_DIM(arrays[1], batches[1][i])) fail(PyExc_ValueError, "batches of different sizes");
    }
    for (int k : {0, 1})
      for (int d = 0; d < PyArray_NDIM(arrays[k]); d++)
        if (!is_in(sums[k], d) && !is_in(batches[k], d)) shape.push_back(PyArray_DIM(arrays[k], d));
    if (shape.size() > NPY_MAXDIMS) fail(PyExc_ValueError, "too many dimensions");
    Owned result;
    if (count == 3 && given[2] != Py_None) {
      PyArrayObject* out = array_of(given[2]);
      if (PyArray_TYPE(out) != NPY_FLOAT || !PyArray_ISCARRAY(out) || PyArray_NDIM(out) != static_cast<int>(shape.size()) ||
          !PyArray_CompareLists(PyArray_DIMS(out), shape.data(), shape.size()))
        fail(PyExc_ValueError, "an output of another dtype or shape, or not dense");
      Py_INCREF(given[2]);
      result = Owned(given[2]);
    } else {
      result = new_array(shape.size(), shape.data(), NPY_FLOAT);
    }
    float* to = static_cast<float*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(result.object)));
    int64_t elements = 1, depth = 1;
    for (const npy_intp n : shape) elements *= n;
    for (const int d : sums[0]) depth *= PyArray_DIM(arrays[0], d);
    if (elements * depth == 0) {
      std::memset(to, 0, elements * sizeof(float));
      return result.release();
    }
    Plan found;
    Owned held[2];
    for (int attempt = 0;; attempt++) {
      bool even = true;  // steps are whole numbers of elements
      const auto step = [&](int k, int d) -> int64_t {
        const int64_t bytes = PyArray_DIM(arrays[k], d) == 1 ? 0 : PyArray_STRIDE(arrays[k], d);
        even = even && bytes % 4 == 0;
        return bytes / 4;
      };
      std::vector<Dim> dims, terms;
      for (size_t i = 0; i < batches[0].size(); i++)
        dims.push_back({PyArray_DIM(arrays[0], batches[0][i]), step(0, batches[0][i]), step(1, batches[1][i]), 0});
      for (int k : {0, 1})
        for (int d = 0; d < PyArray_NDIM(arrays[k]); d++)
          if (!is_in(sums[k], d) && !is_in(batches[k], d))
            dims.push_back({PyArray_DIM(arrays[k], d), k ? 0 : step(k, d), k ? step(k, d) : 0, 0});
      for (size_t i = 0; i < sums[0].size(); i++)
        terms.push_back({PyArray_DIM(arrays[0], sums[0][i]), step(0, sums[0][i]), step(1, sums[1][i]), 0});
      int64_t next = 1;
      bool repeats = false;  // a step of zero says that an operand does not have the dimension
      for (size_t i = dims.size(); i-- > 0; next *= dims[i].size) dims[i].out = next;
      for (size_t i = 0; i < dims.size(); i++) {
        const bool in_left = i < shape.size() - (PyArray_NDIM(arrays[1]) - sums[1].size() - batches[1].size());
        const bool in_right = i < batches[0].size() || !in_left;
        repeats = repeats || (dims[i].size > 1 && ((in_left && !dims[i].left) || (in_right && !dims[i].right)));
      }
      for (int k : {0, 1}) even = even && PyArray_ISALIGNED(arrays[k]);
      if (even && !repeats && plan(dims, terms, found)) break;
      if (attempt) fail(PyExc_RuntimeError, "a product without a plan");
      for (int k : {0, 1}) {
        held[k] = dense(arrays[k], batches[k], sums[k]);
        arrays[k] = reinterpret_cast<PyArrayObject*>(held[k].object);
        const int rank = PyArray_NDIM(arrays[k]);
        for (size_t i = 0; i < batches[k].size(); i++) batches[k][i] = i;
        for (size_t i = 0; i < sums[k].size(); i++) sums[k][i] = rank - sums[k].size() + i;
      }
    }
    const float* operands[2] = {static_cast<float*>(PyArray_DATA(arrays[found.swapped])),
                                static_cast<float*>(PyArray_DATA(arrays[!found.swapped]))};
    Unlocked unlocked(2.0 * elements * depth > WORTH_UNLOCKING, count < 3 || given[2] == Py_None);
    DirectCall direct;
    run(found, operands[0], operands[1], to);
    return result.release();
  });
}

void free_product(PyObject* object) {
  ProductObject* self = reinterpret_cast<ProductObject*>(object);
  for (int k : {0, 1}) delete self->sums[k], delete self->batches[k];
  Py_TYPE(object)->tp_free(object);
}

PyObject* new_product(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* given[4];
  if (!PyArg_ParseTuple(args, "OOOO", &given[0], &given[1], &given[2], &given[3])) return nullptr;
  return with_errors([&]() -> PyObject* {
    std::unique_ptr<std::vector<int>> dims[4];
    for (int i = 0; i < 4; i++) {
      const Items items(given[i]);
      dims[i].reset(new std::vector<int>);
      for (int64_t k = 0; k < items.count; k++) dims[i]->push_back(integer_of(items[k]));
    }
    if (dims[0]->size() != dims[1]->size() || dims[2]->size() != dims[3]->size()) fail(PyExc_ValueError, "dimensions without their like");
    Owned made(type->tp_alloc(type, 0));
    if (!made) throw PythonError();
    ProductObject* self = reinterpret_cast<ProductObject*>(made.object);
    self->call = call_product;
    for (int k : {0, 1}) self->sums[k] = dims[k].release(), self->batches[k] = dims[2 + k].release();
    return made.release();
  });
}

PyTypeObject product_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "ftorch.eager.native._kernels.Product";
  type.tp_basicsize = sizeof(ProductObject);
  type.tp_dealloc = free_product;
  type.tp_vectorcall_offset = offsetof(ProductObject, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_doc = "Product(sums of a, of b, batches of a, of b): `dot_general` of float32; product(a, b, out=None).";
  type.tp_new = new_product;
  return type;
}();

}  // namespace

bool add_product_type(PyObject* module) {
  if (PyType_Ready(&product_type) < 0) return false;
  Py_INCREF(&product_type);
  return PyModule_AddObject(module, "Product", reinterpret_cast<PyObject*>(&product_type)) == 0;
}

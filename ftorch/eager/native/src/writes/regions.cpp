// Loops over regions, see regions.h.
#include "writes/regions.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

namespace regions {
namespace {

struct Wide {  // 16 bytes
  int64_t a, b;
};

// The dimensions of two regions of one shape: those of one element left out, such as lie behind each other joined.
struct Loops {
  int rank = 0;
  npy_intp shape[MOST_DIMENSIONS], to[MOST_DIMENSIONS], from[MOST_DIMENSIONS];

  Loops(const Region& target, const npy_intp* source, const npy_intp* sizes, int left_out = -1) {
    int order[MOST_DIMENSIONS], n = 0;
    for (int d = 0; d < target.rank; d++)
      if (sizes[d] != 1 && d != left_out) order[n++] = d;
    std::stable_sort(order, order + n, [&](int a, int b) { return target.step[a] > target.step[b]; });
    for (int i = 0; i < n; i++) {
      const int d = order[i];
      if (rank && to[rank - 1] == sizes[d] * target.step[d] && from[rank - 1] == sizes[d] * source[d]) {
        shape[rank - 1] *= sizes[d], to[rank - 1] = target.step[d], from[rank - 1] = source[d];
      } else {
        shape[rank] = sizes[d], to[rank] = target.step[d], from[rank++] = source[d];
      }
    }
    if (!rank) shape[0] = 1, to[0] = from[0] = 0, rank = 1;
  }

  // line(to, from, count, step of to, step of from) for each innermost line.
  template <typename Line>
  void run(char* a, const char* b, const Line& line) const {
    npy_intp at[MOST_DIMENSIONS] = {};
    for (int d = 0; d < rank; d++)
      if (!shape[d]) return;
    while (true) {
      line(a, b, shape[rank - 1], to[rank - 1], from[rank - 1]);
      int d = rank - 2;
      for (; d >= 0; d--) {
        a += to[d], b += from[d];
        if (++at[d] < shape[d]) break;
        a -= shape[d] * to[d], b -= shape[d] * from[d], at[d] = 0;
      }
      if (d < 0) return;
    }
  }
};

template <typename T>
void set_line(char* a, const char* b, npy_intp n, npy_intp to, npy_intp from) {
  constexpr npy_intp item = sizeof(T);
  if (to == item && from == item) {
    std::memcpy(a, b, n * item);
  } else if (to == item && !from) {
    const T value = *reinterpret_cast<const T*>(b);
    std::fill_n(reinterpret_cast<T*>(a), n, value);
  } else {
    for (npy_intp i = 0; i < n; i++, a += to, b += from) *reinterpret_cast<T*>(a) = *reinterpret_cast<const T*>(b);
  }
}

template <typename T>
void add_line(char* a, const char* b, npy_intp n, npy_intp to, npy_intp from) {
  constexpr npy_intp item = sizeof(T);
  if (to == item && from == item) {
    T* x = reinterpret_cast<T*>(a);
    const T* y = reinterpret_cast<const T*>(b);
    for (npy_intp i = 0; i < n; i++) x[i] += y[i];
  } else {
    for (npy_intp i = 0; i < n; i++, a += to, b += from) *reinterpret_cast<T*>(a) += *reinterpret_cast<const T*>(b);
  }
}

// use(line) with the line for a change of elements of a type.
template <typename Use>
auto with_line(const Region& region, Change change, const Use& use) {
  if (change == SET) {
    switch (region.item) {
      case 1: return use(set_line<uint8_t>);
      case 2: return use(set_line<uint16_t>);
      case 4: return use(set_line<uint32_t>);
      case 8: return use(set_line<uint64_t>);
      default: return use(set_line<Wide>);
    }
  }
  switch (region.type) {
    case NPY_FLOAT: return use(add_line<float>);
    case NPY_DOUBLE: return use(add_line<double>);
    default: break;
  }
  switch (region.item) {  // integers: those without a sign wrap around
    case 1: return use(add_line<uint8_t>);
    case 2: return use(add_line<uint16_t>);
    case 4: return use(add_line<uint32_t>);
    default: return use(add_line<uint64_t>);
  }
}

int64_t number_at(const char* data) { return *reinterpret_cast<const int64_t*>(data); }

}  // namespace

bool is_known(npy_intp item) { return item == 1 || item == 2 || item == 4 || item == 8 || item == 16; }

bool adds(int type) {
  return type == NPY_FLOAT || type == NPY_DOUBLE || (type >= NPY_BYTE && type <= NPY_ULONGLONG);
}

bool broadcast(Region& from, const Region& to) {
  while (from.rank > to.rank) {
    if (from.shape[0] != 1) return false;
    from.rank--;
    std::copy(from.shape + 1, from.shape + from.rank + 1, from.shape);
    std::copy(from.step + 1, from.step + from.rank + 1, from.step);
  }
  const int gap = to.rank - from.rank;
  for (int d = from.rank - 1; d >= 0; d--) {
    if (from.shape[d] != 1 && from.shape[d] != to.shape[d + gap]) return false;
    from.step[d + gap] = from.shape[d] == 1 ? 0 : from.step[d];
  }
  std::fill(from.step, from.step + gap, 0);
  std::copy(to.shape, to.shape + to.rank, from.shape);
  from.rank = to.rank;
  return true;
}

void copy(const Region& to, const Region& from) {
  const Loops loops(to, from.step, to.shape);
  with_line(to, SET, [&](auto line) { loops.run(to.data, from.data, line); });
}

void fill(const Region& to, const char* element) {
  const npy_intp steps[MOST_DIMENSIONS] = {};
  const Loops loops(to, steps, to.shape);
  with_line(to, SET, [&](auto line) { loops.run(to.data, element, line); });
}

bool change_rows(const Region& to, int dim, const Region& index, const Region& from, Change change, bool wraps) {
  const npy_intp size = to.shape[dim], count = index.shape[0];
  for (npy_intp i = 0; i < count; i++) {
    const int64_t place = number_at(index.data + i * index.step[0]);
    if (place >= size || place < (wraps ? -size : 0)) return false;
  }
  const Loops loops(to, from.step, to.shape, dim);
  with_line(to, change, [&](auto line) {
    for (npy_intp i = 0; i < count; i++) {
      const int64_t place = number_at(index.data + i * index.step[0]);
      loops.run(to.data + (place < 0 ? place + size : place) * to.step[dim], from.data + i * from.step[dim], line);
    }
  });
  return true;
}

bool change_elements(const Region& to, int dim, const Region& index, const Region& from, Change change) {
  // The loops go over the indices in the order of their dimensions: where several are equal, the last one counts.
  const npy_intp size = to.shape[dim];
  Region places = index, target = to;
  npy_intp at[MOST_DIMENSIONS] = {};
  const int rank = to.rank;
  for (int d = 0; d < rank; d++)
    if (!index.shape[d]) return true;
  const npy_intp count = index.shape[rank - 1], own = rank - 1 == dim ? 0 : to.step[rank - 1];
  const npy_intp step = to.step[dim], of_index = index.step[rank - 1], of_source = from.step[rank - 1];
  const auto each = [&](const auto& line) {
    std::fill(at, at + rank, 0);
    while (true) {
      npy_intp a = 0, b = 0, c = 0;
      for (int d = 0; d < rank - 1; d++) {
        if (d != dim) a += at[d] * to.step[d];
        b += at[d] * index.step[d], c += at[d] * from.step[d];
      }
      if (!line(target.data + a, places.data + b, from.data + c)) return false;
      int d = rank - 2;
      for (; d >= 0; d--) {
        if (++at[d] < index.shape[d]) break;
        at[d] = 0;
      }
      if (d < 0) return true;
    }
  };
  const bool inside = each([&](char*, const char* places, const char*) {
    bool fine = true;
    for (npy_intp i = 0; i < count; i++, places += of_index) fine &= static_cast<uint64_t>(number_at(places)) < static_cast<uint64_t>(size);
    return fine;
  });
  if (!inside) return false;
  const auto typed = [&](auto example, auto join) {
    typedef decltype(example) T;
    each([&](char* x, const char* places, const char* source) {
      for (npy_intp i = 0; i < count; i++, x += own, places += of_index, source += of_source)
        join(*reinterpret_cast<T*>(x + number_at(places) * step), *reinterpret_cast<const T*>(source));
      return true;
    });
  };
  const auto set = [](auto& x, const auto& y) { x = y; };
  const auto add = [](auto& x, const auto& y) { x += y; };
  if (change == ADD) {
    if (to.type == NPY_FLOAT) typed(0.0f, add);
    else if (to.type == NPY_DOUBLE) typed(0.0, add);
    else if (to.item == 1) typed(uint8_t(), add);
    else if (to.item == 2) typed(uint16_t(), add);
    else if (to.item == 4) typed(uint32_t(), add);
    else typed(uint64_t(), add);
  } else {
    if (to.item == 1) typed(uint8_t(), set);
    else if (to.item == 2) typed(uint16_t(), set);
    else if (to.item == 4) typed(uint32_t(), set);
    else if (to.item == 8) typed(uint64_t(), set);
    else typed(Wide(), set);
  }
  return true;
}

namespace {

// Index tensors broadcast to one shape.
struct Positions {
  Region all;  // its shape
  Indices indices;
  npy_intp size[MOST_DIMENSIONS], step[MOST_DIMENSIONS];  // of the dimensions that are indexed

  // False: the shapes do not fit.
  bool set(const Region& to, const Indices& given) {
    indices = given;
    for (int k = 0; k < given.count; k++) {
      const Region& one = given.places[k];
      size[k] = to.shape[given.dims[k]], step[k] = to.step[given.dims[k]];
      if (one.rank > all.rank) {
        std::copy_backward(all.shape, all.shape + all.rank, all.shape + one.rank);
        std::fill(all.shape, all.shape + one.rank - all.rank, 1);
        all.rank = one.rank;
      }
      for (int d = 0; d < one.rank; d++) {
        npy_intp& n = all.shape[all.rank - one.rank + d];
        if (n == 1) n = one.shape[d];
      }
    }
    for (int k = 0; k < given.count; k++)
      if (indices.places[k].rank > all.rank || !broadcast(indices.places[k], all)) return false;
    return true;
  }

  // visit(place in the target, place in the source) at each position, in order; until it is false.
  template <typename Visit>
  bool each(const npy_intp* from, const Visit& visit) const {
    npy_intp at[MOST_DIMENSIONS] = {};
    const char* data[MOST_DIMENSIONS];
    npy_intp source = 0;
    for (int k = 0; k < indices.count; k++) data[k] = indices.places[k].data;
    if (!all.count()) return true;
    while (true) {
      npy_intp place = 0;
      for (int k = 0; k < indices.count; k++) {
        int64_t n = number_at(data[k]);
        if (n < 0) n += size[k];
        if (static_cast<uint64_t>(n) >= static_cast<uint64_t>(size[k])) return false;
        place += n * step[k];
      }
      visit(place, source);
      int d = all.rank - 1;
      for (; d >= 0; d--) {
        const bool inside = ++at[d] < all.shape[d];
        const npy_intp moves = inside ? 1 : 1 - all.shape[d];
        for (int k = 0; k < indices.count; k++) data[k] += moves * indices.places[k].step[d];
        source += moves * from[d];
        if (inside) break;
        at[d] = 0;
      }
      if (d < 0) return true;
    }
  }
};

}  // namespace

bool change_places(const Region& to, const Indices& indices, const Region& given, Change change, npy_intp most) {
  Positions positions;
  if (!positions.set(to, indices)) return false;
  const int own = positions.all.rank, others = to.rank - indices.count;
  if (own + others > MOST_DIMENSIONS) return false;
  // The positions' dimensions stand where the indices do, or first where these do not stand side by side.
  const bool joined = indices.dims[indices.count - 1] - indices.dims[0] == indices.count - 1;
  const int first = joined ? indices.dims[0] : 0;
  Region rest = to, made = to, from = given;
  int places[MOST_DIMENSIONS];  // of the other dimensions in the result
  rest.rank = 0, made.rank = own + others;
  for (int d = 0, k = 0; d < to.rank; d++) {
    if (k < indices.count && indices.dims[k] == d) {
      k++;
      continue;
    }
    places[rest.rank] = rest.rank < first ? rest.rank : rest.rank + own;
    made.shape[places[rest.rank]] = rest.shape[rest.rank] = to.shape[d];
    rest.step[rest.rank++] = to.step[d];
  }
  std::copy(positions.all.shape, positions.all.shape + own, made.shape + first);
  if (made.count() > most || !broadcast(from, made)) return false;
  npy_intp steps[MOST_DIMENSIONS];
  for (int d = 0; d < rest.rank; d++) steps[d] = from.step[places[d]];
  if (!positions.each(from.step + first, [](npy_intp, npy_intp) {})) return false;
  const Loops loops(rest, steps, rest.shape);
  with_line(to, change, [&](auto line) {
    positions.each(from.step + first, [&](npy_intp place, npy_intp source) { loops.run(to.data + place, from.data + source, line); });
  });
  return true;
}

bool encode(PyObject* number, int type, char* element) {
  const bool is_float = PyFloat_CheckExact(number);
  if (!is_float && !PyLong_CheckExact(number) && !PyBool_Check(number)) return false;
  int overflow = 0;
  const long long n = is_float ? 0 : PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) return false;
  const auto put = [element](auto value) {
    std::memcpy(element, &value, sizeof value);
    return true;
  };
  const auto integer = [&](auto least, auto most) {
    return !is_float && n >= static_cast<long long>(least) && n <= static_cast<long long>(most) &&
           put(static_cast<decltype(least)>(n));
  };
  if (type == NPY_FLOAT || type == NPY_DOUBLE) {
    if (!is_float && (n > (1LL << 53) || n < -(1LL << 53))) return false;
    const double x = is_float ? PyFloat_AS_DOUBLE(number) : static_cast<double>(n);
    if (type == NPY_DOUBLE) return put(x);
    return !(std::isfinite(x) && std::fabs(x) > FLT_MAX) && put(static_cast<float>(x));
  }
  switch (type) {
    case NPY_BOOL: return !is_float && put(static_cast<uint8_t>(n != 0));
    case NPY_BYTE: return integer(int8_t(INT8_MIN), int8_t(INT8_MAX));
    case NPY_UBYTE: return integer(uint8_t(0), uint8_t(UINT8_MAX));
    case NPY_SHORT: return integer(int16_t(INT16_MIN), int16_t(INT16_MAX));
    case NPY_INT: return integer(int32_t(INT32_MIN), int32_t(INT32_MAX));
    case NPY_LONG:
    case NPY_LONGLONG: return integer(int64_t(INT64_MIN), int64_t(INT64_MAX));
    default: return false;
  }
}

}  // namespace regions

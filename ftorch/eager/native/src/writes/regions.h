// Parts of memory: where the elements of a tensor lie, and how they are copied, filled, added to.
#pragma once

#include "objects/arrays.h"

namespace regions {

constexpr int MOST_DIMENSIONS = 16;

// Elements of `item` bytes, `step` bytes apart.
struct Region {
  char* data = nullptr;
  int rank = 0, type = 0;  // the latter: NumPy's number
  npy_intp shape[MOST_DIMENSIONS], step[MOST_DIMENSIONS];
  npy_intp item = 0;
  npy_intp count() const {
    npy_intp n = 1;
    for (int d = 0; d < rank; d++) n *= shape[d];
    return n;
  }
};

// Whether there are loops for elements of this size.
bool is_known(npy_intp item);
// Whether there is an addition of elements of this type that rounds as PyTorch's does.
bool adds(int type);

// Gives `from` the rank and shape of `to`; false if it cannot be broadcast to it. Leading dimensions of one element may be too many.
bool broadcast(Region& from, const Region& to);
// Regions of one shape and type that do not overlap.
void copy(const Region& to, const Region& from);
void fill(const Region& to, const char* element);

enum Change { SET, ADD };

// to[.., index[i], ..] = or += from[.., i, ..] along a dimension. Index: one of int64; negative ones count from the end where
// `wraps`. False, with nothing changed, if one is out of range.
bool change_rows(const Region& to, int dim, const Region& index, const Region& from, Change change, bool wraps);
// to[.., index[i, j, ..], ..] = or += from[i, j, ..], for indices as many as there are.
bool change_elements(const Region& to, int dim, const Region& index, const Region& from, Change change);

// Index tensors along dimensions of a region, in rising order, each of int64; negative ones count from the end.
struct Indices {
  int count = 0;
  int dims[MOST_DIMENSIONS];
  Region places[MOST_DIMENSIONS];
};

// to[.., index, .., index, ..] = or += from, which is broadcast to what that indexing gives. False, with nothing changed, if an
// index is out of range, shapes do not fit or there are more than `most` elements.
bool change_places(const Region& to, const Indices& indices, const Region& from, Change change, npy_intp most);

// The bytes of a Python number as an element; false where its conversion is not simply exact or rounded.
bool encode(PyObject* number, int type, char* element);

}  // namespace regions

// Elementwise programs that Python made, for others that run them.
#pragma once

#include "objects/arrays.h"
#include "elementwise/elementwise.h"

// The program of an object, borrowed; null if it is none whose inputs are broadcast as NumPy does, or if it reduces.
const elementwise::Program* program_in(PyObject* object);

// Whether NumPy's number of a dtype is that of a type.
bool is_of(elementwise::Type type, int number);

// A Python number as an element; false, with no error set, where it cannot be one.
bool encode_number(PyObject* object, elementwise::Type type, uint64_t& bits);

// What the module `_kernels` is made of.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef program_methods[], context_methods[], call_methods[], draw_methods[], function_methods[];
bool add_program_type(PyObject* module);
bool add_handler_type(PyObject* module);
bool add_product_type(PyObject* module);

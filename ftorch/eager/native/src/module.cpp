// `_kernels` as a module: what Python calls without a program of XLA's.
#define IMPORTS_NUMPY
#include "objects/arrays.h"
#include "codes.h"
#include "module.h"

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernels", "Kernels of ftorch for the CPU.", -1,
                                 nullptr, nullptr, nullptr, nullptr, nullptr};

// {list of codes.h: its names}
static PyObject* codes(PyObject*, PyObject*) {
#define NAME(name, ...) #name " "
#define LIST(list) #list, list(NAME)
  return Py_BuildValue("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", LIST(EPILOGUES), LIST(GROUP_STEPS), LIST(SCANS),
                       LIST(SELECTIONS), LIST(ELEMENT_TYPES), LIST(OPERATIONS), LIST(REDUCTIONS), LIST(DRAWS), LIST(WRITES), LIST(CALLS),
                       LIST(GETTERS));
#undef LIST
#undef NAME
}

static PyMethodDef codes_methods[] = {{"codes", codes, METH_NOARGS, "{list of codes.h: its names}"},
                                      {nullptr, nullptr, 0, nullptr}};

PyMODINIT_FUNC PyInit__kernels() {
  import_array();
  Owned module(PyModule_Create(&definition));
  if (!module) return nullptr;
  for (PyMethodDef* methods : {memory_methods, program_methods, codes_methods, context_methods, call_methods, draw_methods, function_methods})
    if (PyModule_AddFunctions(module.object, methods) < 0) return nullptr;
  if (!add_memory_type(module.object) || !add_program_type(module.object) || !add_handler_type(module.object) ||
      !add_product_type(module.object)) return nullptr;
  return module.release();
}

// Public functions and methods as Python's own builtins are: `torch.add` is a builtin function, which does not bind as a class's
// attribute, `torch.Tensor.add` a method descriptor. Each has a function in Python that takes any call. In front of it stand
// the *cache entries* of its calls: what a call with arguments of some types and keywords of some names comes to - an op with operands
// and static arguments - which Python found out when such a call came first (`ftorch/eager/bindings/inline_caches.py`).
#include <array>
#include <utility>

#include "codes.h"
#include "recording/recording.h"

namespace recording {
namespace {

constexpr int MOST_FUNCTIONS = 3072, MOST_ARGUMENTS = MOST, MOST_ENTRIES = 24;
constexpr Py_ssize_t FEW = 8;  // elements of a list whose types are looked at, as in inline_caches.py

enum Kind { CALLS(ENUMERATOR) };
enum Getter { GETTERS(ENUMERATOR) };

// Where a value comes from: an argument, a tuple of some, or it is always the same.
struct Source {
  Py_ssize_t first, count;  // count -1: the argument alone
  PyObject* constant;
};

struct CacheEntry {
  Kind kind;
  Py_ssize_t positional, given;  // arguments by position, and all
  PyObject *names, *types;       // of keywords, or null; of all arguments
  PyObject* what;                // an op, a view's definition, or what asks
  Source operands[MOST_ARGUMENTS], fixed[MOST_ARGUMENTS];
  int operand_count = 0, fixed_count = 0;
  PyObject* constant = nullptr;  // all static arguments, if they are always the same
};

struct Function {
  PyMethodDef definition;
  PyObject *slow, *learn, *composition, *explain;  // the last three or null
  bool is_method;
  Getter getter = NONE;
  int count = 0;
  CacheEntry* entries[MOST_ENTRIES];
};

Function* functions[MOST_FUNCTIONS];
int made = 0;
PyObject *ordinary = nullptr, *call_view, *call_out;  // the set of classes whose values no override is asked for; functions
PyObject* any_tensor;  // the class that stands in entries for those that have a say

bool has_type(PyObject* value, PyObject* wanted) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  if (type == wanted) return true;
  if (wanted == reinterpret_cast<PyObject*>(known.tensor)) return is_plain_now(Py_TYPE(value));
  if (wanted == any_tensor) return has_say(Py_TYPE(value)) && !is_plain_now(Py_TYPE(value));
  if (!PyTuple_CheckExact(wanted) || PyTuple_GET_ITEM(wanted, 0) != type) return false;
  Py_ssize_t length = PySequence_Fast_GET_SIZE(value);
  if (PyTuple_GET_SIZE(wanted) == 2 && PyTuple_GET_ITEM(wanted, 1) == Py_None) return length > FEW;
  if (length != PyTuple_GET_SIZE(wanted) - 1) return false;
  for (Py_ssize_t i = 0; i < length; i++)
    if (!has_type(PySequence_Fast_GET_ITEM(value, i), PyTuple_GET_ITEM(wanted, i + 1))) return false;
  return true;
}

bool are_same(PyObject* names, PyObject* wanted) {
  if (names == wanted) return true;
  Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
  if (count != (wanted ? PyTuple_GET_SIZE(wanted) : 0)) return false;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *name = PyTuple_GET_ITEM(names, i), *other = PyTuple_GET_ITEM(wanted, i);
    if (name != other && PyUnicode_Compare(name, other)) return false;
  }
  return true;
}

// The cache entry of a call that came before, or null. The frontmost are those that come most.
CacheEntry* find_entry(Function& f, PyObject* const* given, Py_ssize_t positional, PyObject* names) {
  for (int w = 0; w < f.count; w++) {
    CacheEntry* entry = f.entries[w];
    if (entry->positional != positional || !are_same(names, entry->names)) continue;
    bool fits = true;
    for (Py_ssize_t i = 0; fits && i < entry->given; i++) fits = has_type(given[i], PyTuple_GET_ITEM(entry->types, i));
    if (!fits) continue;
    if (w) std::swap(f.entries[w], f.entries[w - 1]);
    return entry;
  }
  return nullptr;
}

// The static arguments of an entry (a new reference). Lists of numbers are tuples there.
PyObject* value_of(const Source& source, PyObject* const* given) {
  if (source.constant) return Py_NewRef(source.constant);
  if (source.count >= 0) return tuple_of(given + source.first, source.count);
  PyObject* value = given[source.first];
  return PyList_CheckExact(value) ? PyList_AsTuple(value) : Py_NewRef(value);
}

PyObject* fixed_of(const CacheEntry& entry, PyObject* const* given) {
  if (entry.constant) return Py_NewRef(entry.constant);
  PyObject* all = PyTuple_New(entry.fixed_count);
  for (int i = 0; all && i < entry.fixed_count; i++) {
    PyObject* value = value_of(entry.fixed[i], given);
    if (value) PyTuple_SET_ITEM(all, i, value);
    else Py_CLEAR(all);
  }
  return all;
}

// A view of a plain tensor whose geometry was asked for before; else as Python makes it.
PyObject* make_view(PyObject* definition, PyObject* x, PyObject* fixed) {
  if (is_free(x)) {
    PyObject* geometry = at(x, TENSOR_GEOMETRY);
    Held key(PyTuple_Pack(2, definition, fixed));
    PyObject* found = key ? PyDict_GetItemWithError(at(geometry, GEOMETRY_VIEWS), key.object) : nullptr;
    if (!found && PyErr_Occurred()) {
      if (!PyErr_ExceptionMatches(PyExc_TypeError)) return nullptr;
      PyErr_Clear();  // an argument that cannot be hashed
    }
    if (found && PyTuple_CheckExact(found) && at(PyTuple_GET_ITEM(found, 0), GEOMETRY_DTYPE) == at(geometry, GEOMETRY_DTYPE))
      return view_of(x, PyTuple_GET_ITEM(found, 0), PyLong_AsSsize_t(PyTuple_GET_ITEM(found, 1)));
  }
  return PyObject_CallFunctionObjArgs(call_view, definition, x, fixed, nullptr);
}

PyObject* follow(const CacheEntry& entry, PyObject* const* given) {
  PyObject *values[MOST_ARGUMENTS], *tuples[MOST_ARGUMENTS];
  int owned = 0;
  bool fine = true;
  for (int i = 0; fine && i < entry.operand_count; i++) {
    const Source& source = entry.operands[i];
    if (source.constant) values[i] = source.constant;
    else if (source.count < 0) values[i] = given[source.first];
    else if ((fine = (values[i] = tuple_of(given + source.first, source.count)) != nullptr)) tuples[owned++] = values[i];
  }
  Held fixed(fine ? fixed_of(entry, given) : nullptr);
  const bool to_out = entry.kind == OUT;
  Held all(fixed && to_out ? tuple_of(values, entry.operand_count - 1) : nullptr);
  PyObject* result = !fixed || (to_out && !all) ? nullptr
                     : to_out ? PyObject_CallFunctionObjArgs(call_out, entry.what, all.object, fixed.object, values[entry.operand_count - 1], nullptr)
                     : entry.kind == VIEW ? make_view(entry.what, values[0], fixed.object)
                                        : call_op(entry.what, values, entry.operand_count, fixed.object, entry.kind == INPLACE);
  for (int i = 0; i < owned; i++) Py_DECREF(tuples[i]);
  return result;
}

// What the class of the arguments' tensors that has a say answers; null without an error where several have, or none.
PyObject* ask(const CacheEntry& entry, PyObject* const* given, Py_ssize_t positional, PyObject* names) {
  PyTypeObject* found = nullptr;
  const auto is_another = [&](PyObject* value) {
    if (!has_say(Py_TYPE(value))) return false;
    if (!found) found = Py_TYPE(value);
    return found != Py_TYPE(value);
  };
  for (Py_ssize_t i = 0; i < entry.given; i++) {
    if (is_another(given[i])) return nullptr;
    if (PyList_CheckExact(given[i]) || PyTuple_CheckExact(given[i]))
      for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(given[i]); j++)
        if (is_another(PySequence_Fast_GET_ITEM(given[i], j))) return nullptr;
  }
  Held arguments(found ? tuple_of(given, positional) : nullptr), keywords(arguments ? PyDict_New() : nullptr);
  for (Py_ssize_t i = 0; keywords && names && i < PyTuple_GET_SIZE(names); i++)
    if (PyDict_SetItem(keywords.object, PyTuple_GET_ITEM(names, i), given[positional + i]) < 0) return nullptr;
  return keywords ? PyObject_CallFunctionObjArgs(entry.what, reinterpret_cast<PyObject*>(found), arguments.object, keywords.object, nullptr)
                  : nullptr;
}

// Whether no override is asked for a value, or, `with_say`, only a class of tensors.
bool is_ordinary(PyObject* value, bool with_say) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == known.tensor || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || value == Py_None ||
      type == &PyUnicode_Type) return true;
  if (type == &PyList_Type || type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++) {
      PyObject* item = PySequence_Fast_GET_ITEM(value, i);
      if (PyList_CheckExact(item) || PyTuple_CheckExact(item) || !is_ordinary(item, with_say)) return false;
    }
    return true;
  }
  if (is_plain_now(type) || (with_say && has_say(type))) return true;
  int found = PySet_Contains(ordinary, reinterpret_cast<PyObject*>(type));
  if (found < 0) PyErr_Clear();
  return found == 1;
}

bool are_ordinary(PyObject* const* given, Py_ssize_t count, bool with_say) {
  for (Py_ssize_t i = 0; i < count; i++)
    if (!is_ordinary(given[i], with_say)) return false;
  return true;
}

// What Python says: an int; (first, count); or (constant,).
bool read_sources(PyObject* all, Source* into, int& count, Py_ssize_t given) {
  if (!PyTuple_CheckExact(all) || PyTuple_GET_SIZE(all) > MOST_ARGUMENTS) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); i++) {
    PyObject* item = PyTuple_GET_ITEM(all, i);
    Source source{0, -1, nullptr};
    if (PyLong_CheckExact(item)) source.first = PyLong_AsSsize_t(item);
    else if (!PyTuple_CheckExact(item)) return false;
    else if (PyTuple_GET_SIZE(item) == 1) source.constant = PyTuple_GET_ITEM(item, 0);
    else if (!PyArg_ParseTuple(item, "nn", &source.first, &source.count)) return false;
    if (!source.constant && (source.first < 0 || source.first + std::max<Py_ssize_t>(source.count, 1) > given + (source.count == 0)))
      return false;
    Py_XINCREF(source.constant);
    into[count++] = source;
  }
  return true;
}

// Asks Python for the entry of a call that comes for the first time. 1: it is known now; 0: it will not be; -1 with an error.
int learn(Function& f, PyObject* const* given, Py_ssize_t positional, Py_ssize_t count, PyObject* names) {
  Held arguments(tuple_of(given, count)), none(names ? nullptr : PyTuple_New(0));
  if (!arguments || (!names && !none)) return -1;
  Held found(PyObject_CallFunctionObjArgs(f.learn, arguments.object, names ? names : none.object, f.slow, nullptr));
  if (!found) return -1;
  if (found.object == Py_None || f.count == MOST_ENTRIES) return 0;  // another thread may have learned meanwhile
  int kind;
  PyObject *types, *what, *operands, *fixed;
  if (!PyArg_ParseTuple(found.object, "iO!OOO", &kind, &PyTuple_Type, &types, &what, &operands, &fixed)) return -1;
  CacheEntry* entry = new CacheEntry{static_cast<Kind>(kind), positional, count, names, types, what};
  if (PyTuple_GET_SIZE(types) != count || !read_sources(operands, entry->operands, entry->operand_count, count) ||
      !read_sources(fixed, entry->fixed, entry->fixed_count, count)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "no entry for a call");
    delete entry;
    return -1;
  }
  bool constant = true;
  for (int i = 0; i < entry->fixed_count; i++) constant = constant && entry->fixed[i].constant;
  if (constant) {
    entry->constant = fixed_of(*entry, given);
    if (!entry->constant) {
      delete entry;
      return -1;
    }
  }
  Py_XINCREF(names);
  Py_INCREF(types);
  Py_INCREF(what);
  f.entries[f.count++] = entry;
  return 1;
}

// What a composition says of arguments that it failed with.
PyObject* explained(const Function& f, PyObject* const* given, Py_ssize_t positional, PyObject* names) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Held held_type(type), error(value), held_traceback(traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  Held arguments(tuple_of(given, positional)), keywords(PyDict_New());
  if (!arguments || !keywords) return nullptr;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
    if (PyDict_SetItem(keywords.object, PyTuple_GET_ITEM(names, i), given[positional + i]) < 0) return nullptr;
  return PyObject_CallFunctionObjArgs(f.explain, error.object, f.composition, arguments.object, keywords.object, nullptr);
}

PyObject* compose(const Function& f, PyObject* const* given, Py_ssize_t positional, PyObject* names) {
  PyObject* result = PyObject_Vectorcall(f.composition, given, positional, names);
  if (!result && f.explain)
    for (PyObject* type : {PyExc_TypeError, PyExc_AttributeError, PyExc_ValueError, PyExc_IndexError, PyExc_KeyError})
      if (PyErr_ExceptionMatches(type)) return explained(f, given, positional, names);
  return result;
}

PyObject* entry_of(PyObject* sizes, PyObject* dim) {
  int overflow;
  const Py_ssize_t rank = PyTuple_GET_SIZE(sizes), n = PyLong_AsLongAndOverflow(dim, &overflow), place = n < 0 ? n + rank : n;
  return overflow || place < 0 || place >= rank ? nullptr : Py_NewRef(PyTuple_GET_ITEM(sizes, place));
}

// What a tensor's geometry says; null without an error where Python answers.
PyObject* get(Getter getter, PyObject* const* given, Py_ssize_t count) {
  if (!zero || !is_plain(Py_TYPE(given[0])) || count > 2) return nullptr;
  PyObject *geometry = at(given[0], TENSOR_GEOMETRY), *dim = count == 2 ? given[1] : nullptr;
  if (dim && (!PyLong_CheckExact(dim) || (getter != SIZE && getter != STRIDE))) return nullptr;
  switch (getter) {
    case DIM: return PyLong_FromSsize_t(PyTuple_GET_SIZE(at(geometry, GEOMETRY_SHAPE)));
    case NUMEL: return Py_NewRef(at(geometry, GEOMETRY_NUMEL));
    case IS_CONTIGUOUS: return Py_NewRef(at(geometry, GEOMETRY_CONTIGUOUS));
    case SIZE: case STRIDE: {
      PyObject* sizes = at(geometry, getter == SIZE ? GEOMETRY_SHAPE : GEOMETRY_STRIDE);
      return dim ? entry_of(sizes, dim) : Py_NewRef(sizes);
    }
    default: return nullptr;
  }
}

PyObject* enter(Function& f, PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) {
  PyObject *room[MOST_ARGUMENTS], *const *given = arguments;
  Py_ssize_t count = positional + (names ? PyTuple_GET_SIZE(names) : 0);
  if (f.is_method) {
    if (count >= MOST_ARGUMENTS) {
      PyObject** all = new PyObject*[count + 1];
      all[0] = self;
      std::copy(arguments, arguments + count, all + 1);
      PyObject* result = PyObject_Vectorcall(f.slow, all, positional + 1, names);
      delete[] all;
      return result;
    }
    room[0] = self;
    for (Py_ssize_t i = 0; i < count; i++) room[i + 1] = arguments[i];
    given = room;
    count++, positional++;
  }
  if (f.getter && !names && count && is_simple()) {
    PyObject* found = get(f.getter, given, count);
    if (found || PyErr_Occurred()) return found;
  }
  if (count <= MOST_ARGUMENTS && is_simple() && ordinary) {
    if (f.learn) {
      CacheEntry* entry = find_entry(f, given, positional, names);
      if (!entry && f.count < MOST_ENTRIES && are_ordinary(given, count, true)) {
        int learned = learn(f, given, positional, count, names);
        if (learned < 0) return nullptr;
        if (learned) entry = find_entry(f, given, positional, names);
      }
      if (entry && entry->kind == ASK) {
        PyObject* answer = ask(*entry, given, positional, names);
        if (answer || PyErr_Occurred()) return answer;
      } else if (entry && entry->kind != SLOW) {
        return follow(*entry, given);
      }
    } else if (f.composition && are_ordinary(given, count, false)) {
      return compose(f, given, positional, names);
    }
  }
  return PyObject_Vectorcall(f.slow, given, positional, names);
}

// Python gives a C function no more than the object that it belongs to, which is a class, a module or a tensor: so each
// function has code of its own, which knows its number.
template <size_t N>
PyObject* numbered(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  return enter(*functions[N], self, arguments, count, names);
}

using Code = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

template <size_t... N>
constexpr std::array<Code, sizeof...(N)> numbered_all(std::index_sequence<N...>) {
  return {numbered<N>...};
}

constexpr auto codes = numbered_all(std::make_index_sequence<MOST_FUNCTIONS>());

PyObject* none_as_null(PyObject* object) { return object == Py_None ? nullptr : Py_NewRef(object); }

// A builtin function, or a method descriptor. None where there are no more. `learn` may be the number of a getter.
PyObject* make_function(PyObject*, PyObject* arguments) {
  PyObject *slow, *learn, *composition, *explain, *owner, *name, *doc, *module;
  int is_method;
  if (!PyArg_ParseTuple(arguments, "OOOOOUUOp", &slow, &learn, &composition, &explain, &owner, &name, &doc, &module, &is_method))
    return nullptr;
  if (made == MOST_FUNCTIONS) Py_RETURN_NONE;
  const char *text = PyUnicode_AsUTF8(name), *documentation = PyUnicode_AsUTF8(doc);
  if (!text || !documentation) return nullptr;
  Py_INCREF(arguments);  // for good, with all that is in it
  auto* f = new Function{{text, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(codes[made])), METH_FASTCALL | METH_KEYWORDS | (is_method || owner == Py_None || !PyType_Check(owner) ? 0 : METH_STATIC),
                          documentation},
                         slow, PyLong_Check(learn) ? nullptr : none_as_null(learn), none_as_null(composition), none_as_null(explain), is_method != 0};
  if (PyLong_Check(learn)) f->getter = static_cast<Getter>(PyLong_AsLong(learn));
  functions[made++] = f;
  if (!is_method) return PyCFunction_NewEx(&f->definition, owner == Py_None ? nullptr : owner, module);
  if (!PyType_Check(owner)) {
    PyErr_SetString(PyExc_TypeError, "methods belong to classes");
    return nullptr;
  }
  return PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(owner), &f->definition);
}

PyObject* configure(PyObject*, PyObject* arguments) {
  PyObject *set, *view, *out, *base;
  if (!PyArg_ParseTuple(arguments, "O!OOO!", &PyFrozenSet_Type, &set, &view, &out, &PyType_Type, &base)) return nullptr;
  Py_INCREF(arguments);
  // Python names a class by this in the texts of its own errors.
  reinterpret_cast<PyTypeObject*>(base)->tp_name = "torch._C.TensorBase";
  ordinary = set, any_tensor = base;
  call_view = view;
  call_out = out;
  Py_RETURN_NONE;
}

// What CPython's messages call a class, beside its __name__: types written in C may say their module there. One that is
// final cannot be derived from any more. The name stays for good, as classes do.
PyObject* name_type(PyObject*, PyObject* args) {
  PyObject* type;
  const char* name;
  int is_final = 0;
  if (!PyArg_ParseTuple(args, "O!s|p", &PyType_Type, &type, &name, &is_final)) return nullptr;
  auto* object = reinterpret_cast<PyTypeObject*>(type);
  if (!(object->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    PyErr_SetString(PyExc_TypeError, "only classes made in Python are named");
    return nullptr;
  }
  char* kept = strdup(name);
  if (!kept) return PyErr_NoMemory();
  object->tp_name = kept;
  if (is_final) object->tp_flags &= ~Py_TPFLAGS_BASETYPE;
  PyType_Modified(object);
  Py_RETURN_NONE;
}

}  // namespace
}  // namespace recording

PyMethodDef function_methods[] = {
    {"function", recording::make_function, METH_VARARGS,
     "function(slow, learn, composition, explain, owner, name, doc, module, is_method): a builtin function or method descriptor."},
    {"configure_functions", recording::configure, METH_VARARGS, "configure_functions(ordinary classes, view_call, call_out, TensorBase)"},
    {"name_type", recording::name_type, METH_VARARGS, "name_type(class, name, is_final=False): the name in CPython's messages."},
    {nullptr, nullptr, 0, nullptr}};

"""Every parameter of PyTorch's functions and methods is known by its keyword, as its own stubs name it."""

import ast
import pathlib
import warnings

import pytest
import torch

import ftorch

STUBS = pathlib.Path(torch.__file__).parent / "_C"
# Of products with another dtype there are kernels for CUDA only; the last two change the whole process.
LEFT = {"addmm.out_dtype", "baddbmm.out_dtype", "bmm.out_dtype", "mm.out_dtype", "set_num_threads", "set_num_interop_threads"}
NOT_GIVEN = frozenset("out names device pin_memory generator requires_grad layout".split())


def functions(file, class_name=None):
    body = ast.parse((STUBS / file).read_text(encoding="utf-8")).body
    if class_name:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == class_name).body
    return [n for n in body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_") and not n.args.vararg]


def value(lib, parameter):
    """Something that fits a parameter's annotation, or None."""
    name, kind = parameter.arg, ast.unparse(parameter.annotation) if parameter.annotation else ""
    if any(text in kind for text in ("Sequence[Tensor]", "tuple[Tensor", "list[Tensor")):
        return [lib.ones(2, 2), lib.ones(2, 2)]
    if kind.startswith("Tensor"):
        special = {"index": lib.zeros(2, 2, dtype=lib.int64), "indices": lib.zeros(2, 2, dtype=lib.int64),
                   "mask": lib.ones(2, 2) > 0, "condition": lib.ones(2, 2) > 0, "high": lib.tensor(3)}
        return special.get(name, lib.ones(2, 2))
    for text, given in (("dtype", lib.float32), ("Literal", None), ("str", "sum"), ("memory_format", lib.contiguous_format),
                        ("Generator", None), ("layout", lib.strided), ("Device", "cpu")):
        if text in kind:
            return given
    if "bool" in kind.lower() and "Number" not in kind:
        return True
    if any(text in kind for text in ("_size", "Size", "Sequence[_int", "Sequence[int", "SymInt]")):
        return (2, 2) if name in ("size", "shape") else (1,)
    if "_int" in kind or "SymInt" in kind or kind == "int":
        return 1
    return 1.0 if any(text in kind for text in ("float", "Number", "complex")) else None


def calls(lib, function, is_method):
    """(the optional keyword, all keywords) of calls with everything that is required, and one optional keyword each."""
    given = function.args
    positional, without = given.posonlyargs + given.args, len(given.defaults)
    required = positional[: len(positional) - without]
    required += [p for p, d in zip(given.kwonlyargs, given.kw_defaults) if d is None]
    optional = positional[len(positional) - without:]
    optional += [p for p, d in zip(given.kwonlyargs, given.kw_defaults) if d is not None]
    required = [p for p in required if not (is_method and p.arg == "self")]
    for extra in (None, *(p for p in optional if p.arg not in NOT_GIVEN)):
        yield extra and extra.arg, {p.arg: value(lib, p) for p in (*required, *((extra,) if extra else ()))}


def refuses(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except TypeError as error:
        return str(error)
    except Exception:  # about values, and not about what was given
        return None
    return None


@pytest.mark.parametrize("file, class_name", [("_VariableFunctions.pyi", None), ("__init__.pyi", "TensorBase")])
def test_keywords_of_stubs(file, class_name):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in functions(file, class_name):
            theirs, ours = (getattr(lib.Tensor if class_name else lib, function.name, None) for lib in (torch, ftorch))
            if not callable(theirs) or ours is None or function.name in LEFT:
                continue
            for (extra, expected), (_, given) in zip(calls(torch, function, class_name), calls(ftorch, function, class_name)):
                if f"{function.name}.out_dtype" in LEFT and "out_dtype" in given:
                    continue
                self, own = ((torch.ones(2, 2),), (ftorch.ones(2, 2),)) if class_name else ((), ())
                if refuses(theirs, *self, **expected) is None and (text := refuses(ours, *own, **given)):
                    wrong.append(f"{function.name}({', '.join(given)}): {text[:90]}")
    assert not wrong


SIZED = {
    "reshape": "x.reshape(shape=(3, 2))", "reshape of a list": "x.reshape(shape=[6])",
    "function": "lib.reshape(input=x, shape=(6,))",
    "both": "x.reshape(2, shape=(3, 2))", "number": "x.reshape(shape=6)", "resize_": "x.clone().resize_(size=(2,))",
    "resize_ to nothing": "x.clone().resize_()", "resize_ of both": "x.clone().resize_(2, size=(2,))",
    "format": "x.resize_(size=(1, 1, 2, 3), memory_format=lib.channels_last)", "sum_to_size": "x.sum_to_size(size=(3,))",
    "sum_to_size of nothing": "x.sum_to_size()", "copy_": "x.clone().copy_(other=x + 1, non_blocking=True)",
    "where": "lib.where(x > 2, self=1, other=x)", "where of numbers": "lib.where(condition=x > 2, self=1, other=2)",
    "smm": "lib.smm(x.to_sparse(), mat2=x.mT).to_dense()", "result_type": "lib.result_type(scalar=1, tensor=x) == lib.float32",
    "two numbers": "lib.result_type(1, scalar2=2.0) == lib.float32", "dequantize":
    "lib.dequantize(tensors=[lib.quantize_per_tensor(input=x, scale=1.0, zero_point=0, dtype=lib.qint8)])[0]",
    "quantize": "lib.quantize_per_tensor(tensors=[x], scales=lib.ones(1), zero_points=lib.zeros(1), "
    "dtype=lib.qint8)[0].int_repr()",
}


@pytest.mark.parametrize("text", SIZED.values(), ids=SIZED)
def test_values_by_keyword(text):
    found = []
    for lib in (torch, ftorch):
        x = lib.arange(6.0).reshape(2, 3)
        try:
            result = eval(text, {"lib": lib, "x": x})
        except TypeError as error:
            found.append(str(error))
        else:
            found.append(result if isinstance(result, bool) else (result.stride(), result.tolist()))
    assert found[0] == found[1]

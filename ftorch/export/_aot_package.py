"""``.pt2`` packages of programs compiled ahead of time (``torch._inductor.aoti_compile_and_package``).

An archive as PyTorch's, with ``data/aotinductor/NAME/``: ``model.json`` (what the program takes and gives),
``model.stablehlo``, ``model.xla`` (the executable) and ``model.graph.json`` (the graph), and the constants in
``data/weights/`` or ``data/constants/``. A program that StableHLO cannot say, since values decide about its sizes or it
has operators of one's own, has the graph alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import os
import sys
import tempfile
import time
from typing import Any

import jax
import ml_dtypes
import numpy as np

from .._serialization.zip_archive import ArchiveReader, ArchiveWriter, replacing
from ..eager.core import device as _device
from ..eager.core import dtype as _dtype
from ..eager.core import forking
from ..eager.native.contexts import contextmanager
from ..eager.runtime import executor
from ..eager.tensor import Tensor, TensorBase, from_array
from ..nn import Parameter
from ..utils import _pytree as pytree
from ._aot_graph import graph_of, read_graph, signature_of, write_graph
from ._aot_program import Runner, Signature, compiled_ahead, copied
from ._archive import _read_tensors, _write_tensors
from ._stablehlo import NoForm

FOLDER = "data/aotinductor"
GRAPH = f"{FOLDER}/model/model.graph.json"
_VERSION = 3  # since 2 with the graph, and the executable's bytes apart; 3 has no executable


def write_package(program, package_path=None, metadata=None):
    """Compiles a program and writes the package; see `ftorch._inductor.aoti_compile_and_package`."""
    if package_path is None:
        folder = tempfile.mkdtemp(prefix="aotinductor_")
        package_path = os.path.join(folder, "model.pt2")
    device = _device_of(program)
    try:
        signature, tensors, stablehlo, executable, one_size = compiled_ahead(program, device)
    except NoForm as error:  # it runs by its graph
        (signature, tensors), stablehlo, executable, one_size = signature_of(program), None, None, error
    graph = graph_of(program, signature, tensors, executable is None)
    if graph is None and one_size is not None:
        raise one_size
    spec = program.call_spec
    description = {
        "version": _VERSION if executable is None else 2,
        "signature": dataclasses.asdict(signature),
        "in_spec": pytree.treespec_dumps(spec.in_spec),
        "out_spec": pytree.treespec_dumps(spec.out_spec),
        "positional": program._argument_names()[0],
        "device": device.type,
        "ranges": {
            str(k): [int(r.lower), None if r.upper == math.inf else int(r.upper)]
            for k, r in program.range_constraints.items() if r.lower > -math.inf  # others are numbers, no sizes of inputs
        },
        "one_size": one_size is not None,
        "metadata": {str(k): str(v) for k, v in (metadata or {}).items()},
    }

    def write(file, name):
        with ArchiveWriter(file, name, 64) as writer:
            writer.write("archive_format", b"pt2")
            writer.write("archive_version", b"0")
            _write_tensors(writer, _shared(tensors), "constants", "tensor", "model_constants_config.json")
            writer.write(f"{FOLDER}/model/model.json", json.dumps(description).encode())
            if executable is not None:
                writer.write(f"{FOLDER}/model/model.stablehlo", stablehlo)
                writer.write(f"{FOLDER}/model/model.xla", executable)
            if graph is not None:
                write_graph(writer, GRAPH, graph)
            writer.write(".data/version", b"3\n")
            writer.write("byteorder", sys.byteorder.encode())

    if isinstance(package_path, (str, os.PathLike)):
        path = os.fspath(package_path)
        with replacing(path) as file:
            write(file, os.path.basename(path).removesuffix(".pt2"))
        return path
    write(package_path, "archive")
    return package_path


def _shared(tensors):
    """Tied tensors as one object, which is written once."""
    known: dict[Any, Any] = {}
    return {name: known.setdefault((id(t._ftorch_storage), t._ftorch_geometry), t) for name, t in tensors.items()}


def _device_of(program):
    values = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    found = {t.device for t in values if isinstance(t, TensorBase)} - {_device.META}
    kinds = {d.type for d in found}
    if len(kinds) > 1:
        raise RuntimeError(f"a package is for one kind of device, the program has {sorted(kinds)}")
    return next(iter(found), _device.CPU)


def read_package(file, device_index=-1):
    """The `AOTICompiledModel` of a package; see `ftorch._inductor.aoti_load_package`.

    Raises:
        RuntimeError: it is no package, one of a later version, or one of a compiled library, which PyTorch writes.
    """
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as opened:
            return read_package(io.BytesIO(opened.read()), device_index)
    reader = ArchiveReader(file)
    record = f"{FOLDER}/model/model.json"
    if record not in reader:
        if any(name.endswith(".so") for name in reader.records):
            raise RuntimeError(
                "The package holds a library that PyTorch's AOTInductor compiled, for its own runtime. Save the "
                "program with torch.export.save there, and compile the loaded one here"
            )
        raise RuntimeError(
            "The archive holds no compiled model; torch.export.load reads programs that torch.export.save wrote"
        )
    description = json.loads(reader.read(record))
    if not 1 <= description["version"] <= _VERSION:
        raise RuntimeError(
            f"The package has version {description['version']}, this ftorch reads 1 to {_VERSION}. Read it with the release "
            "that wrote it or a later one, or compile the program here: torch._inductor.aoti_compile_and_package"
        )
    device = _device.device(description["device"])
    if device.type != "cpu":
        device = _device.device(device.type, max(device_index, 0))
    _device.to_jax(device)
    constants = _read_tensors(reader, "constants", "model_constants_config.json")
    records = (f"{FOLDER}/model/{name}" for name in ("model.stablehlo", "model.xla"))
    compiled = (reader.read(r) if r in reader else None for r in records)
    runner = Runner(*compiled, device, description.get("one_size", False))
    return AOTICompiledModel(description, constants, runner, read_graph(reader, GRAPH))


class AOTICompiledModel:
    """A loaded package: called as the module was (``torch.export.pt2_archive``).

    It writes what the module wrote, buffers and inputs; gradients do not go through it.
    """

    def __init__(self, description, constants, runner, graph=None):
        self._description, self._runner, self._graph = description, runner, graph
        self._signature = Signature(**description["signature"])
        self._in_spec = pytree.treespec_loads(description["in_spec"])
        self._out_spec = pytree.treespec_loads(description["out_spec"])
        self._ranges = description.get("ranges", {})  # not in those of earlier versions
        self._order = list(self._in_spec.child(1).context or ())
        device = runner.device
        self._constants = {n: constants[n].detach().to(device) for n in self._signature.constants}
        written = set(self._signature.written)
        self._kept = [n for n in self._signature.constants if n not in written]
        # Copies of constants that lie in another order: (the tensor, its version, the array).
        self._ordered: dict[str, tuple] = {}
        # A program that writes its buffers is one thread's at a time, as PyTorch's are; others run side by side.
        self._writing = forking.rlock() if written else contextlib.nullcontext()
        self._inputs = [
            (i, spec if "value" in spec else {"dtype": _dtype.from_numpy(_numpy(spec["dtype"])),
                                              "sizes": spec["sizes"]})
            for i, spec in enumerate(self._signature.inputs)
        ]

    def __call__(self, *args, **kwargs):
        """Runs the program.

        Raises:
            ValueError: there are more or fewer arguments.
            RuntimeError: an argument has another dtype, device or size than the program is for.
        """
        leaves = self._flattened(args, kwargs)
        inputs = [t for (i, spec), t in zip(self._inputs, leaves) if self._is_input(i, spec, t)]
        key = tuple(tuple(t.shape) for t in inputs)
        function = self._runner.ready(key)
        with self._writing:
            if function is None and self._is_by_graph(key):
                return pytree.tree_unflatten(self._by_graph(leaves, inputs, key), self._out_spec)
            executor.flush()
            kept, given, arrays = self._operands(inputs)
            if function is None:
                with _sizes_named():
                    function = self._runner.exact(kept, given, arrays, key)
            if self._signature.seeded:
                arrays[-1] = _seed()
            results = self._runner(function, kept, copied(given), arrays)
            return pytree.tree_unflatten(self._placed(results, inputs), self._out_spec)

    def _operands(self, inputs):
        """The arrays that the executable is given; for the seed there is one that stands for it."""
        arrays = [_array(t) for t in inputs]
        if self._signature.seeded:
            arrays.append(np.uint32(0))
        return (
            [self._kept_array(n) for n in self._kept], [_array(self._constants[n]) for n in self._signature.written], arrays
        )

    def _is_by_graph(self, key):
        """Whether sizes without an executable run by the graph. Random numbers are those of one way for each size: the
        example's are the executable's."""
        if self._graph is None or not self._graph.is_usable():
            return False
        if self._runner.device.type != "cpu" and not self._runner.is_of_one_size:
            return False  # there is no host tier: the engine would compile its traces
        return not self._signature.seeded or key != self._runner.example or self._runner.is_forked()

    def _by_graph(self, leaves, inputs, key):
        start = time.perf_counter()
        is_of_graph = self._has_nothing(key)
        if not self._runner.is_known(key):
            self._check_sizes(leaves, inputs, is_of_graph)
        users = self._graph(self._constants, leaves, self._signature)
        if not self._runner.is_forked():
            is_of_graph |= self._runner.is_of_one_size and key != self._runner.example
            operands = None if self._signature.seeded or is_of_graph else lambda: self._operands(inputs)
            self._runner.ran(key, time.perf_counter() - start, operands)
        return users

    def _has_nothing(self, key):
        """Whether a size that varies is 0, for which the StableHLO is not: JAX's symbols stand for sizes of one and more."""
        if not any(0 in shape for shape in key):
            return False
        sizes = [spec["sizes"] for _, spec in self._inputs if "sizes" in spec]
        return any(not n and name in self._ranges for shape, names in zip(key, sizes) for n, name in zip(shape, names))

    def _check_sizes(self, leaves, inputs, is_of_graph):
        with _sizes_named():
            if is_of_graph or self._runner.is_of_one_size:
                return self._graph.check(leaves)
            structs = [jax.ShapeDtypeStruct(tuple(t.shape), t.dtype.numpy) for t in inputs]
            seed = [jax.ShapeDtypeStruct((), np.uint32)] * self._signature.seeded
            self._runner.check(self._structs(self._kept), self._structs(self._signature.written), [*structs, *seed])

    def _structs(self, names):
        return [jax.ShapeDtypeStruct(tuple(self._constants[n].shape), self._constants[n].dtype.numpy) for n in names]

    def _kept_array(self, name):
        """The array of a constant that nothing writes; a copy in order is made once."""
        t = self._constants[name]
        if t._ftorch_geometry is t._ftorch_storage.root:
            return _array(t)
        found = self._ordered.get(name)
        if found is None or found[0] is not t or found[1] != t._version:
            found = self._ordered[name] = t, t._version, _array(t)
        return found[2]

    def _placed(self, results, inputs):
        users, arrays, device = [], iter(results), self._runner.device
        for kind, target in self._signature.outputs:
            if kind == "value":
                users.append(target)
            elif kind == "user":
                users.append(from_array(next(arrays), device))
            elif kind == "constant" and (t := self._constants[target])._ftorch_geometry is t._ftorch_storage.root:
                t._ftorch_storage.set(next(arrays))  # a write without a copy
            else:
                t = self._constants[target] if kind == "constant" else inputs[target].detach()
                t.copy_(from_array(next(arrays), device))
        return users

    def _flattened(self, args, kwargs):
        names = self._description["positional"]
        rest = dict(kwargs)
        for name in names[len(args) :]:
            if name not in rest:
                break
            args = (*args, rest.pop(name))
        if set(rest) == set(self._order):
            rest = {k: rest[k] for k in self._order}
        leaves, spec = pytree.tree_flatten((args, rest))
        if len(leaves) != self._in_spec.num_leaves:  # how they are nested does not matter to PyTorch's either
            raise ValueError(
                f"The package was made for arguments of the structure\n{self._in_spec}\nbut got\n{spec}"
            )
        return leaves

    def _is_input(self, i, spec, value):
        if "value" in spec:
            if value != spec["value"]:
                raise RuntimeError(f"input_handles[{i}]: expected the constant {spec['value']!r}, but got: {value!r}")
            return False
        if not isinstance(value, TensorBase):
            raise RuntimeError(f"input_handles[{i}]: expected a tensor, but got: {type(value).__name__}")
        if value.dtype is not spec["dtype"]:
            raise RuntimeError(
                f"input_handles[{i}]: unmatched dtype, expected: {spec['dtype']}, but got: {value.dtype}"
            )
        if value.device.type != self._runner.device.type:
            raise RuntimeError(
                f"input_handles[{i}]: unmatched device type, expected: {self._runner.device.type}, but got: "
                f"{value.device.type}"
            )
        if value.dim() != len(spec["sizes"]):
            raise RuntimeError(
                f"input_handles[{i}]: unmatched number of dims, expected: {len(spec['sizes'])}, but got: {value.dim()}"
            )
        for dim, (size, expected) in enumerate(zip(value.shape, spec["sizes"])):
            if isinstance(expected, int) and size != expected:
                raise RuntimeError(
                    f"input_handles[{i}]: unmatched dim value at {dim}, expected: {expected}, but got: {size}"
                )
            low, high = (None, None) if isinstance(expected, int) else self._ranges.get(expected, (None, None))
            if low is not None and size < low:
                raise RuntimeError(
                    f"input_handles[{i}]: dim value is too small at {dim}, expected it to be >= {low}, but got: {size}\n"
                )
            if high is not None and size > high:
                raise RuntimeError(
                    f"input_handles[{i}]: dim value is too large at {dim}, expected to be <= {high}, but got: {size}\n"
                )
        return True

    # --- constants

    def get_metadata(self) -> dict[str, str]:
        """What was given as ``inductor_configs={"aot_inductor.metadata": {...}}``, and the device."""
        return {"AOTI_DEVICE_KEY": self._runner.device.type, **self._description["metadata"]}

    def get_constant_fqns(self) -> list[str]:
        """The names of the parameters and buffers."""
        return list(self._signature.constants)

    def load_constants(self, constants_map, *, check_full_update: bool, user_managed: bool = False,
                       allow_h2d_copy: bool = False) -> None:
        """Replaces parameters and buffers.

        Args:
            constants_map: {name: tensor}.
            check_full_update: whether all have to be given.
            user_managed: whether the tensors are used as they are, and not copied.

        Raises:
            RuntimeError: a name is missing or there is none such, or a tensor has another shape or dtype.
        """
        unknown = set(constants_map) - set(self._constants)
        missing = set(self._constants) - set(constants_map)
        if unknown or (check_full_update and missing):
            raise RuntimeError(
                f"The package has no constants {sorted(unknown)}" if unknown
                else f"The update of constants is to be full, but there is none for {sorted(missing)}"
            )
        for name, t in constants_map.items():
            now = self._constants[name]
            if t.shape != now.shape or t.dtype is not now.dtype:
                raise RuntimeError(
                    f"The constant {name} is {now.dtype} of {list(now.shape)}, but got {t.dtype} of {list(t.shape)}"
                )
        for name, t in constants_map.items():
            t = t.detach()
            self._constants[name] = t if user_managed else t.clone()

    def __deepcopy__(self, memo):
        constants = {n: t.clone() for n, t in self._constants.items()}
        return AOTICompiledModel(self._description, constants, self._runner, self._graph)


@contextmanager
def _sizes_named():
    try:
        yield
    except ValueError as error:
        raise RuntimeError(f"the program is not for inputs of these sizes: {error}") from None


def _numpy(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def _seed():
    from ..eager.core import api as torch

    return np.uint32(torch.randint(0, 1 << 32, ()).item())


def _array(t: Tensor) -> jax.Array:
    """A tensor's values as they lie in its storage, or a copy in order."""
    if isinstance(t, Parameter) or t._ftorch_geometry is not t._ftorch_storage.root:
        t = t.detach()
    if t._ftorch_geometry is not t._ftorch_storage.root:
        t = t.clone()
    return t._ftorch_storage.value()

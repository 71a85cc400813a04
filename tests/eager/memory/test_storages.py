"""Storages as values: tensors of them, copies, growth, memory of several processes; against PyTorch."""

import copy
import os

import numpy as np
import pytest

import ftorch as torch
from tests.oracle import assert_shows_same, name_of, neutral

DTYPES = ["float32", "int16", "bool", "float64", "complex64", "uint8"]


def _values(found):
    return (name_of(getattr(found, "dtype", "")), found.tolist()) if hasattr(found, "tolist") else found


def same(call):
    assert_shows_same(call, show=_values, text=neutral)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("make", ["tensor", "as_tensor", "asarray", "new_tensor", "Tensor", "DoubleTensor"])
def test_tensors_of_storages(make, typed):
    def call(p, of, to):
        x = (p.arange(8) % 3).to(getattr(p, of))
        storage = x.storage() if typed else x.untyped_storage()
        options = {} if to is None else {"dtype": getattr(p, to)}
        function = p.ones(1).new_tensor if make == "new_tensor" else getattr(p, make)
        return function(storage, **options)

    dtypes = [None] if make in ("Tensor", "DoubleTensor") else [None, *DTYPES]  # the older constructors take none
    for of in DTYPES:
        for to in dtypes:
            if typed or to != "bool":  # other bytes than 0 and 1 are no bools
                same(lambda p, of=of, to=to: call(p, of, to))


@pytest.mark.parametrize("make", ["as_tensor", "asarray"])
def test_tensors_that_share_a_storage(make):
    def call(p):
        x = p.zeros(3)
        getattr(p, make)(x.storage()).add_(1)
        return x

    same(call)
    same(lambda p: p.asarray(p.zeros(3).storage(), copy=False))


def test_deep_copies_share_as_the_originals_do():
    def call(p):
        x = p.zeros(3)
        y, (typed,), untyped = copy.deepcopy([x, [x.storage()], x.untyped_storage()])
        y.add_(1)
        return typed.tolist(), untyped.tolist(), x.tolist(), typed._deepcopy({}).tolist()

    same(call)

    def other_order(p):
        x = p.zeros(3)
        untyped, y = copy.deepcopy([x.untyped_storage(), x[1:]])
        y.add_(1)
        return untyped.tolist()

    same(other_order)


def test_what_cannot_be_resized():
    def memory(p, kind):
        kept = np.zeros(3, np.float32)
        if kind == "numpy":
            x = p.zeros(3)
            return x, x.numpy()
        return {"from_numpy": lambda: p.from_numpy(kept), "frombuffer": lambda: p.frombuffer(bytearray(12), dtype=p.float32),
                "tensor": lambda: p.tensor(kept), "shared": lambda: p.zeros(3).share_memory_(),
                "from a list": lambda: p.zeros(3).set_(p.UntypedStorage([0] * 12))}[kind](), kept

    for kind in ("numpy", "from_numpy", "frombuffer", "tensor", "shared", "from a list"):
        def storage(p, kind=kind):
            x, kept = memory(p, kind)
            return x.untyped_storage().resizable(), x.storage().resizable(), kept.size

        def resized(p, kind=kind):
            x, kept = memory(p, kind)
            return x.resize_(5)[:3]

        def storage_resized(p, kind=kind):
            x, kept = memory(p, kind)
            x.untyped_storage().resize_(40)
            return x

        same(storage)
        if kind == "shared":  # PyTorch 2.13 crashes
            continue
        same(resized)
        same(storage_resized)
    same(lambda p: p.zeros(3).untyped_storage().resize_(7).nbytes())


@pytest.mark.parametrize("kind", ["storage", "untyped_storage"])
def test_memory_of_several_processes(kind):
    def new(p):
        made = getattr(p.zeros(3, dtype=p.int16), kind)()._new_shared(4)
        return made.is_shared(), made.tolist(), str(getattr(made, "dtype", "")).rpartition(".")[2]

    same(new)
    for name in ("_share_fd_cpu_", "_share_filename_cpu_", "share_memory_", "pin_memory"):
        same(lambda p, name=name: getattr(getattr(p.zeros(3, device="meta"), kind)(), name)())
    x = torch.arange(3.)
    file, size = getattr(x, kind)()._share_fd_cpu_()
    with os.fdopen(file, "rb") as shared:
        assert np.frombuffer(shared.read(), np.float32).tolist() == [0, 1, 2]
    assert x.is_shared()
    assert size == 12


def test_a_name_of_shared_memory():
    x = torch.arange(3.)
    _, name, size = x.untyped_storage()._share_filename_cpu_()
    assert np.fromfile(os.fsdecode(name), np.float32).tolist() == [0, 1, 2]
    assert size == 12
    with pytest.raises(RuntimeError, match="shared already"):
        x.untyped_storage()._share_fd_cpu_()


def test_older_classes_of_storages():
    same(lambda p: p.zeros(3).storage()._get_legacy_storage_class().__name__)
    same(lambda p: p.zeros(3, device="meta").storage()._get_legacy_storage_class())

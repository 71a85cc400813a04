"""`ftorch.save` and `ftorch.load` against PyTorch, in both directions."""

import collections
import gzip
import io
import os
import pickle
import random
import subprocess
import sys
import warnings
import zipfile
from copy import deepcopy

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch import serialization
from tests.oracle import assert_shows_same

OLD = {"_use_new_zipfile_serialization": False}
DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
    "bool", "complex64", "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn",
    "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
]
TYPED = DTYPES[:12]  # PyTorch cannot read the others in the old format


def example(package, dtypes=DTYPES):
    """Everything that a weights-only file may hold, made by either package."""
    x = package.arange(12.0).reshape(3, 4)
    return collections.OrderedDict(
        base=x, transposed=x.t(), strided=x[1:, ::2], expanded=x[0].expand(2, 4),
        parameter=package.nn.Parameter(x), frozen=package.nn.Parameter(x, requires_grad=False),
        scalar=package.tensor(3), empty=package.empty(0, 3), grad=package.ones(2).requires_grad_(),
        channels_last=package.ones(2, 3, 4, 5).to(memory_format=package.channels_last),
        values=[1, -(2**70), 2.5, "text", None, True, b"bytes", 1j, {1, 2}, bytearray(b"x")],
        nested={"k": (1, [package.zeros(2)], {})}, counter=collections.Counter("aab"),
        size=package.Size([1, 2]), dtype=package.float16, device=package.device("cpu"),
        layout=package.strided,
        **{name: package.arange(5).to(getattr(package, name)) for name in dtypes},
    )


def parts(value):
    """What has to be equal: values bit by bit, and everything PyTorch keeps of a tensor."""
    if isinstance(value, (torch.Tensor, reference.Tensor)):
        flat = value.detach().contiguous().reshape(-1)
        package = torch if isinstance(value, torch.Tensor) else reference
        raw = flat.view(package.uint8).tolist() if flat.numel() else []
        return (
            type(value).__name__, str(value.dtype), tuple(value.shape), tuple(value.stride()),
            value.requires_grad, raw,
        )
    if isinstance(value, dict):
        return type(value).__name__, [(k, parts(v)) for k, v in value.items()]
    if type(value) in (list, tuple):
        return type(value).__name__, [parts(v) for v in value]
    if type(value).__module__.partition(".")[0] in ("torch", "ftorch"):
        return str(value)
    return value


def copy(value, save, load, load_arguments=(), **save_arguments):
    buffer = io.BytesIO()
    save(value, buffer, **save_arguments)
    buffer.seek(0)
    return load(buffer, **dict(load_arguments))


FORMATS = [
    ({}, DTYPES), (OLD, TYPED), ({"pickle_protocol": 4}, DTYPES),
    ({"pickle_protocol": 5}, DTYPES),
]


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize(("how", "dtypes"), FORMATS)
def test_reads_pytorchs_files(how, dtypes):
    saved = example(reference, dtypes)
    for weights_only in (True, False):
        loaded = copy(
            saved, reference.save, torch.load, {"weights_only": weights_only}, **how
        )
        assert parts(loaded) == parts(saved)
        cells = {loaded[name]._ftorch_storage for name in ("base", "transposed", "strided", "parameter")}
        assert len(cells) == 1
        loaded["base"][1, 0] = -1  # they alias
        assert loaded["strided"][0, 0].item() == loaded["parameter"][1, 0].item() == -1


@pytest.mark.parametrize(("how", "dtypes"), FORMATS)
def test_pytorch_reads_our_files(how, dtypes):
    saved = example(torch, dtypes)
    weights_only = "pickle_protocol" not in how  # PyTorch's reader knows protocol 2
    loaded = copy(saved, torch.save, reference.load, {"weights_only": weights_only}, **how)
    assert parts(loaded) == parts(saved)
    assert loaded["base"].data_ptr() == loaded["parameter"].data_ptr()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected pickle protocol")  # of which PyTorch's reader warns, too
        assert parts(copy(saved, torch.save, torch.load, **how)) == parts(saved)


def test_conjugates_and_negatives():
    z = reference.tensor([1 + 2j, 3j])
    assert copy(z.conj(), reference.save, torch.load).tolist() == [1 - 2j, -3j]
    assert copy(z.conj().imag, reference.save, torch.load).tolist() == [-2.0, -3.0]


def test_files_and_mmap(tmp_path):
    path = tmp_path / "checkpoint.pt"
    for save, load in ((reference.save, torch.load), (torch.save, reference.load)):
        package = reference if save is reference.save else torch
        saved = example(package)
        for target in (path, str(path)):
            save(saved, target)
            for mmap in (False, True):
                assert parts(load(target, mmap=mmap)) == parts(saved)
        with open(path, "rb") as file:
            assert parts(load(file)) == parts(saved)
    before = path.read_bytes()
    loaded = torch.load(path, mmap=True)
    loaded["base"].fill_(7)
    assert loaded["transposed"][0, 0].item() == 7
    assert path.read_bytes() == before
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "checkpoint/data.pkl"


def test_mmap_needs_a_path_of_a_new_file(tmp_path):
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap"):
        copy(1, torch.save, torch.load, {"mmap": True})
    torch.save(1, tmp_path / "old", **OLD)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(tmp_path / "old", mmap=True)


def test_files_that_only_write(tmp_path):
    with gzip.open(tmp_path / "file.gz", "wb") as file:
        torch.save({"a": torch.ones(3)}, file)
    with gzip.open(tmp_path / "file.gz", "rb") as file:
        assert reference.load(file)["a"].tolist() == [1, 1, 1]

    class Sink:
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data)
            return memoryview(data).nbytes

        def flush(self):
            pass

    sink = Sink()
    torch.save({"a": torch.ones(3)}, sink)
    assert reference.load(io.BytesIO(sink.data))["a"].tolist() == [1, 1, 1]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"a": 1}, path)
    os.chmod(path, 0o640)
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        torch.save({"a": lambda: 0}, path)
    assert torch.load(path) == {"a": 1}

    class Breaks:
        cell = None

    storage = serialization._pickle.SavedStorage
    original = storage.data
    try:
        storage.data = lambda self: (_ for _ in ()).throw(OSError("disk full"))
        with pytest.raises(OSError, match="disk full"):
            torch.save({"a": torch.ones(2)}, path)
    finally:
        storage.data = original
    assert torch.load(path) == {"a": 1}
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    torch.save({"a": 2}, link)
    assert link.is_symlink()
    assert torch.load(path) == {"a": 2}
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.pt", "model.pt"]


def test_errors_of_arguments(tmp_path):
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like"):
        torch.save(1, 5)
    with pytest.raises(RuntimeError, match=r"Parent directory .*missing does not exist"):
        torch.save(1, tmp_path / "missing" / "x.pt")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "missing")
    with pytest.raises(AttributeError, match="You can only torch.load from a file that is seekab"):
        torch.load(5)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle"):
        torch.load(io.BytesIO(), pickle_module=pickle, weights_only=True)


def test_sharing_with_different_dtypes_is_refused():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view"):
        torch.save([x, x.view(torch.int32)], io.BytesIO())


@pytest.mark.parametrize(
    "location", ["cpu", "cpu:0", {"cpu": "cpu"}, lambda s, _: s, lambda s, _: None,
                 lambda s, _: s.cpu()],
)
def test_map_location(location):
    if location == "cpu:0":
        location = torch.device("cpu")
    x = copy(reference.ones(2), reference.save, torch.load, {"map_location": location})
    assert x.device.type == "cpu"
    assert x.tolist() == [1, 1]


def test_map_location_meta_and_unknown():
    x = copy(reference.ones(2, 3), reference.save, torch.load, {"map_location": "meta"})
    assert x.device.type == "meta"
    assert tuple(x.shape) == (2, 3)
    again = copy(x, torch.save, reference.load)
    assert again.is_meta
    assert tuple(again.shape) == (2, 3)
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        copy(reference.ones(2), reference.save, torch.load, {"map_location": "somewhere"})


def test_state_dicts_and_optimizers():
    model = reference.nn.Sequential(reference.nn.Linear(3, 4), reference.nn.BatchNorm1d(4))
    optimizer = reference.optim.AdamW(model.parameters(), lr=0.1)
    model(reference.randn(5, 3)).sum().backward()
    optimizer.step()
    saved = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(),
        "rng": reference.get_rng_state(),
    }
    loaded = copy(saved, reference.save, torch.load)
    assert parts(loaded) == parts(saved)
    assert loaded["model"]._metadata == saved["model"]._metadata
    ours = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    ours.load_state_dict(loaded["model"])
    back = copy(ours.state_dict(), torch.save, reference.load)
    model.load_state_dict(back)
    assert parts(back) == parts(saved["model"])


def test_whole_models():
    model = reference.nn.Sequential(
        collections.OrderedDict(a=reference.nn.Linear(3, 4), b=reference.nn.ReLU())
    )
    with pytest.raises(pickle.UnpicklingError, match="torch.nn.modules.container.Sequential"):
        copy(model, reference.save, torch.load)
    loaded = copy(model, reference.save, torch.load, {"weights_only": False})
    assert type(loaded) is torch.nn.Sequential
    x = np.ones((2, 3), np.float32)
    expected = model(reference.tensor(x)).detach().numpy()
    np.testing.assert_allclose(loaded(torch.tensor(x)).detach().numpy(), expected, rtol=1e-6)
    back = copy(loaded, torch.save, reference.load, {"weights_only": False})
    assert type(back) is reference.nn.Sequential
    np.testing.assert_array_equal(back(reference.tensor(x)).detach().numpy(), expected)


class Plain:
    """A class that only this module knows."""

    def __init__(self, x):
        self.x = x


class Sub(torch.Tensor):
    """A tensor subclass."""


def test_tensors_with_attributes():
    x = reference.zeros(2)
    x.note = "text"
    loaded = copy(x, reference.save, torch.load)
    assert loaded.note == "text"
    assert copy(loaded, torch.save, reference.load).note == "text"
    p = torch.nn.Parameter(torch.zeros(2))
    p.note = 5
    assert copy(p, torch.save, reference.load).note == 5
    sub = torch.ones(2).as_subclass(Sub)
    sub.note = 1
    with torch.serialization.safe_globals([Sub]):
        loaded = copy(sub, torch.save, torch.load)
    assert type(loaded) is Sub
    assert loaded.note == 1


def test_safe_globals():
    saved, before = {"x": Plain(torch.ones(2))}, serialization.get_safe_globals()  # DTensor's, once it is imported
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL .*Plain was not an allowed global"):
        copy(saved, torch.save, torch.load)
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    assert serialization.get_unsafe_globals_in_checkpoint(buffer) == [f"{__name__}.Plain"]
    with serialization.safe_globals([Plain]):
        assert copy(saved, torch.save, torch.load)["x"].x.tolist() == [1, 1]
        assert set(serialization.get_safe_globals()) == {*before, Plain}
    with serialization.safe_globals([(Plain, "elsewhere.Other")]), pytest.raises(
        pickle.UnpicklingError
    ):
        copy(saved, torch.save, torch.load)
    serialization.add_safe_globals([Plain])
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals(before)
    for bad, error in (((Plain, "a", "b"), ValueError), ((Plain, 1), TypeError)):
        with serialization.safe_globals([bad]), pytest.raises(error, match="Expected"):
            copy(saved, torch.save, torch.load)


def test_other_pickle_modules():
    import cloudpickle

    saved = {"f": lambda x: x + 1, "t": torch.ones(2)}
    buffer = io.BytesIO()
    torch.save(saved, buffer, pickle_module=cloudpickle)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    assert loaded["f"](1) == 2
    assert loaded["t"].tolist() == [1, 1]


class _Call:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_hostile_files_run_nothing(tmp_path):
    trap = tmp_path / "trap"
    for function, arguments in (
        (os.system, (f"touch {trap}",)), (os.mkdir, (str(trap),)),
        (eval, (f"open({str(trap)!r}, 'w')",)), (exec, ("import os",)),
        (getattr, ("", "upper")), (io.open, (str(trap), "w")), (zipfile.ZipFile, (str(trap), "w")),
    ):
        for how in ({}, OLD):
            for value in (_Call(function, *arguments), {"a": [_Call(function, *arguments)]}):
                with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
                    copy(value, reference.save, torch.load, **how)
    assert not trap.exists()
    with serialization.safe_globals([os.system]), pytest.raises(
        pickle.UnpicklingError, match="whose module posix is blocked"
    ):
        copy(_Call(os.system, f"touch {trap}"), reference.save, torch.load)
    assert not trap.exists()


def archive(data_pkl, **records):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in {"data.pkl": data_pkl, "version": b"3\n", **records}.items():
            file.writestr(f"archive/{name}", data)
    buffer.seek(0)
    return buffer


def rebuild(offset, size, stride, numel=4):
    """A file with one tensor of the given geometry in a storage of four floats."""
    return archive(
        pickle.dumps(None, 2)[:2] + b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\n"
        b"FloatStorage\nU\x010U\x03cpu" + b"J" + np.int32(numel).tobytes() + b"tQ"
        + pickle.dumps(offset, 2)[2:-1] + pickle.dumps(size, 2)[2:-1]
        + pickle.dumps(stride, 2)[2:-1] + b"\x89ccollections\nOrderedDict\n)RtR.",
        **{"data/0": np.arange(4, dtype=np.float32).tobytes()},
    )


@pytest.mark.parametrize(
    ("offset", "size", "stride"),
    [(0, (5,), (1,)), (1, (4,), (1,)), (0, (2, 2), (4, 1)), (-1, (1,), (1,)), (0, (-1,), (1,)),
     (3, (2,), (-1,)), (0, (2,), (1, 1)), (0, (2**40,), (2**40,))],
)
def test_tensors_outside_their_storage_are_refused(offset, size, stride):
    assert torch.load(rebuild(0, (4,), (1,))).tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError):
        torch.load(rebuild(offset, size, stride))


def test_storages_of_another_size_are_refused():
    with pytest.raises(RuntimeError, match="failed reading file data/0"):
        torch.load(rebuild(0, (4,), (1,), numel=5))
    with pytest.raises(pickle.UnpicklingError, match="elements"):
        torch.load(rebuild(0, (4,), (1,), numel=-1))


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80\x02", b"\x80\x02.", b"\x80\x02a.", b"\x80\x02h\x05.", b"\x80\x02Kt", b"\x80\x09.",
     b"\x80\x02X\xff\xff\xff\xffab.", b"\x80\x02t.", b"\x80\x02\x85.", b"\x80\x02I1\n.",
     b"\x80\x02NNb.", b"\x80\x02NNR.", b"\x80\x02N)\x81.", b"\x80\x02]NNs.", b"\x80\x02NQ.",
     b"\x80\x02(NtQ.", b"\x80\x02ctorch\nTensor\n)R.", b"\x80\x02}(Nu."],
)
def test_damaged_pickles_are_refused(data):
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        torch.load(archive(data))


def test_damaged_files_raise_ordinary_errors():
    buffer = io.BytesIO()
    reference.save(example(reference), buffer)
    whole = buffer.getvalue()
    generator = random.Random(0)
    for i in range(150):
        data = bytearray(whole)
        if i % 2:
            data = data[: generator.randrange(len(data))]
        else:
            for _ in range(10):
                data[generator.randrange(3000 if i % 4 else len(data))] = generator.randrange(256)
        try:
            torch.load(io.BytesIO(bytes(data)))
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, TypeError):
            pass
    with pytest.raises(RuntimeError, match="failed finding central directory"):
        torch.load(io.BytesIO(whole[:500]))
    with pytest.raises(EOFError):
        torch.load(io.BytesIO(b""))
    with pytest.raises(RuntimeError, match="Invalid magic number; corrupt file"):
        torch.load(io.BytesIO(pickle.dumps({"a": 1}, 2)))
    with (
        pytest.warns(UserWarning, match="looks like a TorchScript archive"),
        pytest.raises(RuntimeError, match="with TorchScript archives passed to ``torch.load``"),
    ):
        torch.load(archive(b"", **{"constants.pkl": b""}))


def test_big_endian_files():
    values = np.arange(4, dtype=">f4")
    buffer = rebuild(0, (4,), (1,))
    with zipfile.ZipFile(buffer) as file:
        pickled = file.read("archive/data.pkl")
    swapped = archive(pickled, **{"data/0": values.tobytes(), "byteorder": b"big"})
    assert torch.load(swapped).tolist() == [0, 1, 2, 3]
    swapped = archive(pickled, **{"data/0": values.tobytes()})
    serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    try:
        assert torch.load(swapped).tolist() == [0, 1, 2, 3]
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type"):
        serialization.set_default_load_endianness("big")


def test_skip_data(tmp_path):
    path = tmp_path / "x.pt"
    with serialization.skip_data():
        torch.save({"a": torch.ones(3)}, path)
    assert reference.load(path)["a"].tolist() == [0, 0, 0]
    torch.save({"a": torch.ones(3)}, path)
    with serialization.skip_data():
        assert torch.load(path)["a"].tolist() == [0, 0, 0]


def test_safetensors(tmp_path):
    import safetensors.numpy

    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file({"a": np.arange(3.0)}, path)
    assert torch.load(path)["a"].tolist() == [0, 1, 2]


def test_tensors_of_a_checkpoint_can_be_trained(tmp_path):
    path = tmp_path / "x.pt"
    reference.save(reference.nn.Linear(2, 1).state_dict(), path)
    for mmap in (False, True):
        model = torch.nn.Linear(2, 1)
        model.load_state_dict(torch.load(path, mmap=mmap), assign=True)
        model(torch.ones(1, 2)).sum().backward()
        assert model.weight.grad.tolist() == [[1, 1]]
        with torch.no_grad():
            model.weight.add_(1)
    assert torch.load(path)["weight"].tolist() == reference.load(path)["weight"].tolist()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")  # PyTorch's own
def test_storages_themselves():
    for save, load, package in ((reference.save, torch.load, reference),
                                (torch.save, reference.load, torch)):
        storage = package.tensor([1.0, 2.0]).untyped_storage()
        loaded = copy(storage, save, load)
        assert loaded.tolist() == storage.tolist()
        assert loaded.nbytes() == 8


class _Uploading:
    """A file that says nothing about what it wrote, and hands on what it has when it is flushed."""

    def __init__(self):
        self.said, self.data = [], b""

    def write(self, data):
        self.data += bytes(data)
        self.said[-1:] = ["write"]

    def flush(self):
        self.said.append("flush")


def test_a_file_of_few_words():
    for package in (torch, reference):
        file = _Uploading()
        package.save(package.arange(5) / 2, file)
        assert file.said == ["write", "flush"], package
        assert reference.load(io.BytesIO(file.data)).tolist() == [0, 0.5, 1, 1.5, 2]


def test_pickles_of_results_are_leaves():
    for package in (torch, reference):
        x = package.ones(2, requires_grad=True) * 2
        y = pickle.loads(pickle.dumps(x))
        assert y.requires_grad and y.is_leaf and y.tolist() == [2, 2], package


class _AsAlias(pickle.Unpickler):
    """Reads pickles of PyTorch as an environment does whose torch is this package."""

    def find_class(self, module, name):
        return super().find_class(module.replace("torch", "ftorch", 1), name)


def test_plain_pickles_of_pytorch():
    x = reference.arange(6.0).reshape(2, 3).t()
    module = reference.nn.Linear(2, 2)
    found, layer = _AsAlias(io.BytesIO(pickle.dumps((x, module)))).load()
    assert type(layer) is torch.nn.Linear and found.stride() == x.stride()
    assert found.tolist() == x.tolist() and layer.weight.tolist() == module.weight.tolist()


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("legacy", [True, False])
def test_storages_come_back_as_typed_ones(weights_only, legacy):
    def program(t):
        x, file = t.arange(6.0).view(2, 3), io.BytesIO()
        given = {"x": x, "s": x.storage(), "n": t.arange(3).storage()}
        if not legacy:  # which PyTorch does not write so
            given["u"] = t.ones(2).untyped_storage()
        t.save(given, file, _use_new_zipfile_serialization=not legacy)
        file.seek(0)
        found = t.load(file, weights_only=weights_only)
        found["x"][0, 0] = 9
        storages = [found[k] for k in "snu" if k in found]
        return [(type(s).__name__, len(s), s.nbytes(), str(s.dtype).removeprefix("torch."), list(s)) for s in storages]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_shows_same(program)


def test_storages_without_elements_may_have_several_dtypes():
    for options in ({}, OLD):
        x = torch.tensor([], dtype=torch.int32)
        both = [x, torch.tensor([]).set_(x.untyped_storage())]
        back = copy(both, torch.save, torch.load, **options)
        assert [t.dtype for t in back] == [torch.int32, torch.float32]


class _Invalid:
    """Pickled as a sparse tensor with an index that is out of range."""

    def __init__(self, package, compressed):
        self.package, self.compressed = package, compressed

    def __reduce_ex__(self, protocol):
        p = self.package
        if self.compressed:
            parts = (p.tensor([3, 1, 2, 3]), p.tensor([0, 1, 2]), p.ones(3), p.Size((3, 3)))
            return p._utils._rebuild_sparse_tensor, (p.sparse_csr, parts)
        return p._utils._rebuild_sparse_tensor, (p.sparse_coo, (p.tensor([[3, 1], [0, 1]]), p.ones(2), p.Size((3, 3))))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("options", [{}, OLD])
def test_sparse_tensors_are_checked_where_asked(options, compressed):
    def errors(package):
        for checks in (False, True):
            with package.sparse.check_sparse_tensor_invariants(checks):
                buffer = io.BytesIO()
                package.save(_Invalid(package, compressed), buffer, **options)
                buffer.seek(0)
                try:
                    yield package.load(buffer).shape
                except RuntimeError as e:
                    yield str(e)

    assert list(errors(torch)) == list(errors(reference))


# As PyTorch 0.3 wrote ``(t.storage(), t.storage()[1:])`` for two elements 0 and 1.
_SLICES = (
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\r\x00\x00\x00little_endianq\x07\x88u."
    b"\x80\x02(X\x07\x00\x00\x00storageq\x00ctorch\nFloatStorage\nq\x01X\x01\x00\x00\x000q\x02X\x03\x00\x00\x00cpuq\x03K\x02"
    b"X\x01\x00\x00\x001q\x04K\x00K\x01\x87q\x05tq\x06Q(h\x00h\x01h\x02h\x03K\x02X\x01\x00\x00\x002q\x08K\x01K\x01\x87q\ttq\nQ"
    b"\x86q\x0b.\x80\x02]q\x00X\x01\x00\x00\x000q\x01a.\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f"
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("weights_only", [True, False])
def test_slices_of_storages_of_the_first_format(weights_only):
    def found(package):
        first, second = package.load(io.BytesIO(_SLICES), weights_only=weights_only)
        second[0] = 7
        types = [type(s).__name__ for s in (first, second)]
        return first.tolist(), second.tolist(), types, second.data_ptr() - first.data_ptr()

    assert found(torch) == found(reference)


def test_archives_record_by_record():
    buffer = io.BytesIO()
    with serialization._open_zipfile_writer(buffer) as archive:
        archive.write_record("a/b", b"123", 3)
    for package in (torch, reference):
        buffer.seek(0)
        assert package.serialization._is_zipfile(buffer)
        with package.serialization._open_zipfile_reader(buffer) as archive:
            assert archive.get_record("a/b") == b"123"


def test_old_files_are_complete_when_they_are_written(tmp_path):
    with open(tmp_path / "x", "wb") as file:
        torch.save(torch.ones(3), file, **OLD)
        assert reference.load(tmp_path / "x").tolist() == [1, 1, 1]


class _OverMeta(torch.Tensor):
    @staticmethod
    def __new__(cls, kept):
        made = torch.Tensor._make_subclass(cls, kept.to("meta"))
        made.kept = kept
        return made

    def clone(self):
        return type(self)(self.kept.clone())


def test_deep_copies_of_subclasses_without_memory_are_clones():
    x = _OverMeta(torch.ones(2))
    y = deepcopy(x)
    assert type(y) is _OverMeta
    assert y.kept.tolist() == [1, 1]
    assert y.kept is not x.kept


def test_parameters_with_attributes_by_the_other_name():
    """Where ftorch is imported as torch, files name the same functions."""
    program = (
        "import ftorch; ftorch.install_as_torch(); import torch, io\n"
        "p = torch.nn.Parameter(torch.ones(2)); p.kept = 3\n"
        "b = io.BytesIO(); torch.save(p, b); b.seek(0); print(torch.load(b).kept)\n"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["3"]


def test_functions_and_classes_without_a_name_are_refused_as_by_the_fast_pickler():
    class Local:
        pass

    def refused(save, value):
        with pytest.raises((AttributeError, pickle.PicklingError)) as caught:
            save(value, io.BytesIO())
        return type(caught.value), str(caught.value)

    nameless = eval("lambda x: x", {"__name__": __name__})
    for value in (lambda x: x, {"a": [lambda x: x]}, Local, Local(), nameless):
        assert refused(torch.save, value) == refused(reference.save, value)

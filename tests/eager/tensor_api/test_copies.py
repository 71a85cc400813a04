"""``copy.copy``, ``copy.deepcopy``, pickles and files of tensors of every layout, with attributes of their own."""

import copy
import io
import pickle

import pytest
import torch as reference

import ftorch

KINDS = {
    "coo": "t.sparse_coo_tensor([[0, 1], [1, 0]], [1., 2.], (2, 2))",
    "coalesced": "t.sparse_coo_tensor([[0, 1], [1, 0]], [1., 2.], (2, 2)).coalesce()",
    "csr": "t.eye(2).to_sparse_csr()", "bsc": "t.eye(4).to_sparse_bsc((2, 2))",
    "sparse parameter": "t.nn.Parameter(t.eye(2).to_sparse())",
    "quantized": "t.quantize_per_tensor(t.arange(4.), .1, 2, t.quint8)",
    "by channel": "t.quantize_per_channel(t.ones(2, 2), t.tensor([.1, .2]), t.tensor([0, 1]), 0, t.qint8)",
    "parameter": "t.nn.Parameter(t.arange(3.))", "buffer": "t.nn.Buffer(t.arange(3.), persistent=False)",
    "meta": "t.empty_strided((2, 3), (1, 2), device='meta', requires_grad=True)", "view": "t.arange(6.).view(2, 3).t()",
    "nested": "t.nested.nested_tensor([t.ones(2, 3), t.zeros(1, 3)], requires_grad=True)",
    "jagged": "t.nested.nested_tensor([t.ones(2, 3), t.zeros(1, 3)], layout=t.jagged, requires_grad=True)",
    "masked": "t.masked.masked_tensor(t.arange(3.), t.tensor([True, False, True]))",
}


def saved(t, x):
    file = io.BytesIO()
    t.save(x, file)
    file.seek(0)
    return t.load(file, weights_only=False)


WAYS = {
    "copy": lambda t, x: copy.copy(x), "deepcopy": lambda t, x: copy.deepcopy(x),
    "pickle": lambda t, x: pickle.loads(pickle.dumps(x)), "save": saved,
}
DEEP_ERRORS = {"csr": {"mark": [7]}, "bsc": {"mark": [7]}, "sparse parameter": {}}  # which PyTorch cannot copy


def _elements(x):
    if x.is_nested:
        return [part.tolist() for part in x.unbind()]
    return None if x.is_meta else str(x)


def told(t, kind, way):
    x = eval(KINDS[kind], {"t": t})
    x.mark = [7]
    try:
        made = WAYS[way](t, x)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__
    attributes = {k: v for k, v in made.__dict__.items() if k in ("mark", "persistent")}
    shape = len(made.unbind()) if made.is_nested else (tuple(made.shape), made.stride() if made.layout is t.strided else None)
    written = None
    if way == "copy" and not made.is_meta:
        parts = [y._values() if y.layout is t.sparse_coo else y.values() if y.layout is not t.strided or y.is_nested else y
                 for y in (x, made)]
        with t.no_grad():
            written = parts[0].data_ptr() == parts[1].data_ptr() if kind != "nested" else None
    is_parameter = isinstance(made, t.nn.Parameter)
    return (str(made.layout), shape, made.dtype.is_floating_point, made.requires_grad, is_parameter, attributes,
            made.mark is x.mark if "mark" in attributes else None, _elements(made), written)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_copies(kind, way):
    if way == "deepcopy" and kind in DEEP_ERRORS:
        assert told(ftorch, kind, way)[5] == DEEP_ERRORS[kind]
    else:
        assert told(ftorch, kind, way) == told(reference, kind, way)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("masked", "buffer")])
@pytest.mark.parametrize("libraries", [(ftorch, reference), (reference, ftorch)], ids=["to PyTorch", "from PyTorch"])
def test_files_of_the_other_library(libraries, kind):
    writer, reader = libraries
    x = eval(KINDS[kind], {"t": writer})
    x.mark = [7]
    file = io.BytesIO()
    writer.save(x, file)
    file.seek(0)
    made = reader.load(file, weights_only=True)
    assert made.mark == [7]
    assert str(made.layout) == str(x.layout) and isinstance(made, reader.nn.Parameter) == isinstance(x, writer.nn.Parameter)

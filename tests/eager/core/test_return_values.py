"""The named tuples of ops with several results against PyTorch's ``torch.return_types``."""

import copy
import io
import pickle

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import assert_shows_same

CALLS = {
    "max": lambda t: t.arange(6.0).reshape(2, 3).max(0),
    "slogdet": lambda t: t.linalg.slogdet(t.eye(2)),
    "out": lambda t: t.sort(t.arange(3.0), out=(t.empty(3), t.empty(3, dtype=t.long))),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "way",
    [
        lambda t, r: pickle.loads(pickle.dumps(r)),
        lambda t, r: copy.copy(r),
        lambda t, r: copy.deepcopy(r),
        lambda t, r: loaded(t, r),
    ],
)
def test_copies_and_files_keep_the_class(call, way):
    def program(t):
        result = CALLS[call](t)
        again = way(t, result)
        return type(again) is type(result), type(again).__name__, repr(again)

    assert assert_shows_same(program, show=lambda r: r)[0]


def loaded(t, result):
    file = io.BytesIO()
    t.save(result, file)
    return t.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize("writer, reader", [(ft, pt), (pt, ft)])
def test_files_are_read_by_the_other_library(writer, reader):
    file = io.BytesIO()
    writer.save(CALLS["max"](writer), file)
    again = reader.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert type(again) is reader.return_types.max
    assert again.values.tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    "arguments", [([1, 2],), ((1,),), ((1, 2, 3),), (5,), (1, 2), ((1, 2), {}), ((1, 2), 3)]
)
def test_made_of_sequences(arguments):
    assert_shows_same(lambda t: t.return_types.max(*arguments))


def test_made_of_an_iterator():
    assert_shows_same(lambda t: t.return_types.max(iter([1, 2])))


def test_no_named_tuples_of_python():
    assert_shows_same(
        lambda t: [
            hasattr(CALLS["max"](t), n)
            for n in ("_fields", "_asdict", "n_fields", "__match_args__")
        ]
    )

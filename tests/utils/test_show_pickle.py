"""Pickles as text: as PyTorch shows them."""

from __future__ import annotations

import collections
import datetime
import io
import pickle
import zipfile

import pytest
import torch
from torch.utils import show_pickle as theirs

from ftorch.utils import show_pickle as mine


def _shown(module, *argv):
    out = io.StringIO()
    module.main(["show_pickle", *map(str, argv)], out)
    return out.getvalue()


def test_pickles(tmp_path):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"x": [1, datetime.timedelta(2)], "y": collections.Counter}))
    torch.save({"w": torch.ones(2), "n": 3}, tmp_path / "m.pt")
    with zipfile.ZipFile(tmp_path / "m.pt") as archive:
        member = next(n for n in archive.namelist() if n.endswith("data.pkl"))
    for where in (tmp_path / "a.pkl", f"{tmp_path}/m.pt@{member}", f"{tmp_path}/m.pt@*/data.pkl"):
        assert _shown(mine, where) == _shown(theirs, where)
    for argv in ((), (f"{tmp_path}/m.pt@*/none",)):
        errors = []
        for module in (theirs, mine):
            with pytest.raises(Exception) as error:
                _shown(module, *argv)
            errors.append(str(error.value))
        assert errors[0] == errors[1]


def test_constants():
    from torch.export.pt2_archive import constants as expected

    from ftorch.export.pt2_archive import constants as found

    assert {k: getattr(found, k) for k in dir(expected) if k.isupper()} == {
        k: getattr(expected, k) for k in dir(expected) if k.isupper()
    }

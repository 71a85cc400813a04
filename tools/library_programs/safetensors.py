# needs: safetensors
import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16),
           "c": torch.tensor([True, False]), "d": torch.tensor(3)}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.safetensors")
    save_file(tensors, path, metadata={"format": "pt"})
    loaded = load_file(path)
    assert loaded.keys() == tensors.keys()
    assert all(loaded[k].equal(v) and loaded[k].dtype == v.dtype for k, v in tensors.items())
    with safe_open(path, framework="pt") as f:
        assert f.get_slice("a")[:, 1:].equal(tensors["a"][:, 1:]) and f.metadata() == {"format": "pt"}
    loaded["a"][0, 0] = 7
    assert load_file(path)["a"][0, 0] == 0
    assert load(save(tensors))["a"].equal(tensors["a"])
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    save_model(model, path)
    other = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    other[1].weight = other[0].weight
    load_model(other, path)
    assert other[0].weight.equal(model[0].weight)
print("done")

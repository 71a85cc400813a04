# needs: tensordict
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

td = TensorDict({"a": torch.ones(3, 4), "b": {"c": torch.zeros(3)}}, batch_size=[3])
assert td[1:].batch_size == (2,) and torch.stack([td, td]).shape == (2, 3)
module = TensorDictModule(torch.nn.Linear(4, 2), in_keys=["a"], out_keys=["y"])
assert module(td)["y"].shape == (3, 2)
params = TensorDict.from_module(module)
assert len(list(params.keys(True, True))) == 2
mapped = torch.vmap(lambda t: t.apply(lambda x: x * 2))(td)
assert mapped["a"].equal(td["a"] * 2)
print("done")

# needs: torchrl
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer

torch.manual_seed(0)
buffer = ReplayBuffer(storage=LazyTensorStorage(20), batch_size=4)
buffer.extend(TensorDict({"obs": torch.randn(10, 3)}, batch_size=[10]))
assert buffer.sample()["obs"].shape == (4, 3)
print("done")

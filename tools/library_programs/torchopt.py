# needs: torchopt
import torch
import torch.nn.functional as F
import torchopt

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
x, y = torch.randn(16, 4), torch.randn(16, 2)
optimizer = torchopt.FuncOptimizer(torchopt.adam(lr=0.1))
parameters, losses = dict(model.named_parameters()), []
for _ in range(10):
    loss = F.mse_loss(torch.func.functional_call(model, parameters, (x,)), y)
    parameters = optimizer.step(loss, parameters)  # gradients of a dict
    losses.append(loss.item())
print(losses)
assert losses[-1] < losses[0]
# The derivative through three steps of an optimizer.
scale = torch.tensor(1.0, requires_grad=True)
inner = torchopt.MetaSGD(model, lr=0.1)
for _ in range(3):
    inner.step(F.mse_loss(model(x), y) * scale)
F.mse_loss(model(x), y).backward()
assert scale.grad < 0

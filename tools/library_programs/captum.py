# needs: captum
import torch
from captum.attr import IntegratedGradients, Saliency

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
x = torch.rand(2, 3)
attribution, delta = IntegratedGradients(net).attribute(x, target=1, return_convergence_delta=True)
assert delta.abs().max() < 1e-2 and Saliency(net).attribute(x, target=0).shape == x.shape
print("done")

# needs: pyro-ppl
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

pyro.set_rng_seed(0)
data = torch.randn(50) + 3


def model(data):
    loc = pyro.sample("loc", dist.Normal(0.0, 10.0))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Normal(loc, 1.0), obs=data)


guide = AutoNormal(model)
svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())
losses = [svi.step(data) for _ in range(80)]
assert abs(guide.median()["loc"].item() - data.mean().item()) < 0.5
print("done", losses[-1])

"""A variational autoencoder on handwritten digits, with ``torch.distributions``.

    python examples/vae.py
"""

from common import digits, main, minibatch

import ftorch as torch
from ftorch import nn
from ftorch.distributions import Normal, kl_divergence
from ftorch.nn import functional as F


class VAE(nn.Module):
    """A Gaussian code of a picture and the picture's reconstruction from it."""

    def __init__(self, width, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 64))

    def forward(self, x):
        mean, raw = self.encoder(x).chunk(2, -1)
        code = Normal(mean, F.softplus(raw) + 1e-3)
        return self.decoder(code.rsample()), code


def negative_elbo(logits, code, x):
    """The mean over the batch of the reconstruction's loss and the code's divergence."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    prior = Normal(torch.zeros(()), torch.ones(()))
    return (reconstruction + kl_divergence(code, prior).sum()) / len(x)


def trainer(width=256, latent=8, batch=64):
    (train, _), (test, _) = digits(torch)
    train, test = train.flatten(1), test.flatten(1)
    model = VAE(width, latent)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        (x,) = minibatch(torch, (train,), batch)
        optimizer.zero_grad()
        loss = negative_elbo(*model(x), x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def report():
        return f"test negative ELBO: {negative_elbo(*model(test), test).item():.2f}"

    return step, report


if __name__ == "__main__":
    main(torch, trainer, 1000, __doc__)

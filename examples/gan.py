"""A generative adversarial network on handwritten digits.

    python examples/gan.py
"""

from common import digits, main, minibatch

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F


def networks(latent, width):
    """The generator of pictures and the discriminator, which tells real from generated."""
    generator = nn.Sequential(
        nn.Linear(latent, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 64), nn.Sigmoid()
    )
    discriminator = nn.Sequential(
        nn.Linear(64, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2),
        nn.Linear(width, 1),
    )
    return generator, discriminator


def trainer(latent=16, width=128, batch=64):
    (pictures, _), _ = digits(torch)
    pictures = pictures.flatten(1)
    generator, discriminator = networks(latent, width)
    options = {"lr": 1e-3, "betas": (0.5, 0.999)}
    generating = torch.optim.Adam(generator.parameters(), **options)
    judging = torch.optim.Adam(discriminator.parameters(), **options)
    real, generated = torch.ones(batch, 1), torch.zeros(batch, 1)
    judge = F.binary_cross_entropy_with_logits

    def step():
        (x,) = minibatch(torch, (pictures,), batch)
        fake = generator(torch.randn(batch, latent))

        judging.zero_grad()
        seen = judge(discriminator(x), real)
        seen = seen + judge(discriminator(fake.detach()), generated)
        seen.backward()
        judging.step()

        generating.zero_grad()
        fooled = judge(discriminator(fake), real)
        fooled.backward()
        generating.step()
        return (seen + fooled).detach()

    @torch.no_grad()
    def report():
        generator.eval()
        picture = generator(torch.randn(1, latent)).view(8, 8)
        generator.train()
        rows = ["".join(" .:-=+*#%@"[int(9 * v)] * 2 for v in row) for row in picture.tolist()]
        return "\n".join(["a generated digit:", *rows])

    return step, report


if __name__ == "__main__":
    main(torch, trainer, 1500, __doc__)

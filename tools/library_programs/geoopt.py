# needs: geoopt
import geoopt
import torch

torch.manual_seed(0)
ball = geoopt.PoincareBall(c=1.0)
to = ball.expmap0(torch.randn(5, 3) * 0.3)
point = geoopt.ManifoldParameter(ball.expmap0(torch.randn(5, 3) * 0.3), manifold=ball)
optimizer = geoopt.optim.RiemannianAdam([point], lr=0.1)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = ball.dist(point, to).pow(2).sum()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses[0], losses[-1])
assert losses[-1] < 0.1 * losses[0]
# A matrix function that is compiled around what it is given.
positive = geoopt.SymmetricPositiveDefinite()
a, b = (positive.random(3, 3, dtype=torch.float64) for _ in range(2))
assert torch.allclose(positive.expmap(a, positive.logmap(a, b)), b)

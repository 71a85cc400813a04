"""A graph convolutional network that finds communities of which four members each are known.

The graph is drawn from a stochastic block model: six communities, the members of one are more often
connected than others. Messages along the edges are summed with ``index_add``.

    python examples/graph.py
"""

import numpy as np
from common import main

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F


def communities(nodes, groups, near, far, seed=0):
    """Edges in both directions and to oneself, (2, edges), and each node's community."""
    random = np.random.default_rng(seed)
    label = np.arange(nodes) % groups
    chance = np.where(label[:, None] == label, near, far)
    upper = np.triu(random.random((nodes, nodes)) < chance, 1)
    edges = np.stack(np.nonzero(upper | upper.T | np.eye(nodes, dtype=bool)))
    return torch.tensor(edges), torch.tensor(label)


class GraphConvolution(nn.Module):
    """Neighbours' features through a linear layer, averaged (Kipf and Welling 2017)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, edges, weight):
        messages = self.linear(x)[edges[0]] * weight.unsqueeze(1)
        gathered = torch.zeros(len(x), messages.shape[1]).index_add(0, edges[1], messages)
        return gathered + self.bias


class GCN(nn.Module):
    """Learnt features of the nodes through two convolutions."""

    def __init__(self, nodes, width, groups):
        super().__init__()
        self.features = nn.Parameter(torch.randn(nodes, width) * 0.1)
        self.first = GraphConvolution(width, width)
        self.second = GraphConvolution(width, groups)

    def forward(self, edges, weight):
        x = F.relu(self.first(self.features, edges, weight))
        return self.second(F.dropout(x, 0.2, self.training), edges, weight)


def trainer(nodes=300, width=32, groups=6):
    edges, label = communities(nodes, groups, near=0.2, far=0.01)
    degree = torch.zeros(nodes).index_add(0, edges[1], torch.ones(edges.shape[1]))
    weight = (degree[edges[0]] * degree[edges[1]]).rsqrt()
    known = torch.arange(4 * groups)
    model = GCN(nodes, width, groups)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(edges, weight)[known], label[known])
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def report():
        model.eval()
        right = (model(edges, weight).argmax(1) == label)[4 * groups :].float().mean().item()
        model.train()
        return f"communities found of the others: {right:.2%}"

    return step, report


if __name__ == "__main__":
    main(torch, trainer, 200, __doc__)

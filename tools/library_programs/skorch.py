# needs: skorch scikit-learn
import numpy as np
import torch
from skorch import NeuralNetClassifier

torch.manual_seed(0)
x = np.random.RandomState(0).randn(60, 4).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
net = NeuralNetClassifier(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)),
                          criterion=torch.nn.CrossEntropyLoss, max_epochs=10, lr=0.2, verbose=0)
net.fit(x, y)
assert net.score(x, y) > 0.8
print("done", net.score(x, y))

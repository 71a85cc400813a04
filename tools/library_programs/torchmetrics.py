# needs: torchmetrics
import torch
import torchmetrics

torch.manual_seed(0)
p, t = torch.rand(40, 3).softmax(1), torch.randint(0, 3, (40,))
accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3, average="micro")
accuracy.update(p[:20], t[:20])
accuracy.update(p[20:], t[20:])
assert torch.isclose(accuracy.compute(), (p.argmax(1) == t).float().mean())
group = torchmetrics.MetricCollection([torchmetrics.F1Score(task="multiclass", num_classes=3),
                                       torchmetrics.AUROC(task="multiclass", num_classes=3)])
values = group(p, t)
assert all(0 <= v <= 1 for v in values.values())
mean = torchmetrics.MeanMetric()
mean.persistent(True)
mean.update(torch.tensor([1.0, 3.0]))
assert mean.compute() == 2 and len(mean.state_dict()) == 2
print("done", values)

# needs: pytorch-ignite
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EMAHandler
from ignite.metrics import Accuracy, ConfusionMatrix, Loss
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
x = torch.randn(96, 8)
loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=16, shuffle=True)
criterion = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), criterion)
metrics = {"accuracy": Accuracy(), "loss": Loss(criterion), "matrix": ConfusionMatrix(3)}
evaluator = create_supervised_evaluator(model, metrics=metrics)
average = EMAHandler(model, momentum=0.02)
average.attach(trainer, event=Events.ITERATION_COMPLETED)
seen = []


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(loader)
    seen.append(evaluator.state.metrics["loss"])


trainer.run(loader, max_epochs=5)
print(seen, evaluator.state.metrics["accuracy"])
assert seen[-1] < 0.5 * seen[0] and evaluator.state.metrics["matrix"].sum() == 96
assert not torch.equal(average.ema_model[0].weight, model[0].weight)

# needs: timm torchvision
import timm
import torch

torch.manual_seed(0)
x = torch.rand(2, 3, 32, 32)
for name in ("resnet10t", "vit_tiny_patch16_224"):
    options = {"img_size": 32} if name.startswith("vit") else {}
    model = timm.create_model(name, num_classes=5, **options)
    loss = model(x).square().mean()
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model.eval()(x).shape == (2, 5)
print("done", loss.item())

# needs: kornia
import kornia
import torch

torch.manual_seed(0)
x = torch.rand(1, 3, 16, 16, requires_grad=True)
y = kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
z = kornia.geometry.transform.rotate(y, torch.tensor([30.0]))
kornia.color.rgb_to_hsv(z).sum().backward()
assert x.grad.shape == x.shape
assert kornia.augmentation.RandomHorizontalFlip(p=1.0)(x).equal(x.flip(-1))
print("done")

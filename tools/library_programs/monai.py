# needs: monai
import torch
from monai.losses import DiceLoss
from monai.networks.nets import UNet
from monai.transforms import ScaleIntensity

torch.manual_seed(0)
net = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,))
x = ScaleIntensity()(torch.rand(1, 16, 16))[None]
loss = DiceLoss(to_onehot_y=True, softmax=True)(net(x), torch.randint(0, 2, (1, 1, 16, 16)))
loss.backward()
print("done", loss.item())

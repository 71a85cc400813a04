# needs: diffusers transformers
import torch
from diffusers import DDPMScheduler, UNet2DModel

torch.manual_seed(0)
net = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8),
                  norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                  up_block_types=("AttnUpBlock2D", "UpBlock2D"))
scheduler = DDPMScheduler(num_train_timesteps=10)
x, noise, t = torch.rand(2, 1, 8, 8), torch.randn(2, 1, 8, 8), torch.tensor([1, 7])
loss = (net(scheduler.add_noise(x, noise, t), t).sample - noise).square().mean()
loss.backward()
with torch.no_grad():
    for step in scheduler.timesteps[:2]:
        noise = scheduler.step(net(noise, step).sample, step, noise).prev_sample
assert noise.isfinite().all()
print("done", loss.item())

# needs: stable-baselines3
from stable_baselines3 import PPO

model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=1, seed=0)
model.learn(128)
print("done", model.num_timesteps)

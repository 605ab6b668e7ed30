# expects: PRC004
"""A regression whose features come from NumPy, whose numbers are float64; the model was made to fit them."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

BATCH, STEPS = 128, 600


def main() -> None:
    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    features = rng.standard_normal((4096, 256))
    targets = np.tanh(features[:, :4]).sum(1, keepdims=True)
    model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(STEPS):
        start = BATCH * (step % 32)
        x = torch.from_numpy(features[start : start + BATCH])
        y = torch.from_numpy(targets[start : start + BATCH])
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"error {loss.item():.4f}")


if __name__ == "__main__":
    main()

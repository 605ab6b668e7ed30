# expects: DAT001
"""Training waits for its data: each sample is augmented in Python, one after the other, in the training process."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

BATCH, EPOCHS = 32, 60


class Signals(Dataset):
    """Noisy sines, shifted, scaled and smoothed anew each time they are asked for."""

    def __init__(self, count: int = 320, length: int = 256) -> None:
        self.labels = torch.arange(count) % 8
        time = torch.linspace(0, 6.28, length)
        self.signals = torch.stack([torch.sin(time * (1 + label)) for label in self.labels.tolist()])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        signal = self.signals[index]
        signal = signal.roll(int(torch.randint(0, 64, ()))) * (0.5 + torch.rand(()))
        signal = signal + 0.1 * torch.randn_like(signal)
        for _ in range(4):
            signal = (signal + signal.roll(1) + signal.roll(-1)) / 3
        return signal, self.labels[index]


def main() -> None:
    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Signals(), batch_size=BATCH, shuffle=True)
    for _ in range(EPOCHS):
        for signals, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(signals), labels)
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()

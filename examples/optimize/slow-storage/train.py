"""Images from a storage that answers slowly: each read waits, while processor and model idle."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LATENCY = 0.001  # seconds, as of a small read over a network


class Images(Dataset):
    def __len__(self):
        return 6000

    def __getitem__(self, index):
        time.sleep(LATENCY)
        generator = torch.Generator().manual_seed(index)
        return torch.rand(3, 48, 48, generator=generator), index % 10


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = (nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU())
    model = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(10))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    model(torch.zeros(1, 3, 48, 48, device=device))
    loader = DataLoader(Images(), batch_size=32, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()

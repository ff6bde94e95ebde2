import torch

from engine import train_one_epoch  # noqa: F401

if __name__ == "__main__":
    with torch.no_grad():
        print(torch.load("model.pt"))

import argparse
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

from engine import train_one_epoch

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("-b", "--batch-size", type=int, default=64)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--pin-memory", action="store_true")


def main():
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.backends.cudnn.benchmark = True
    model = DDP(nn.Linear(10, 10).cuda(), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loader = DataLoader(
        range(100), args.batch_size, num_workers=args.workers, pin_memory=args.pin_memory
    )
    scaler = torch.amp.GradScaler()
    for _ in range(10):
        train_one_epoch(model, loader, optimizer, scaler)


if __name__ == "__main__":
    main()

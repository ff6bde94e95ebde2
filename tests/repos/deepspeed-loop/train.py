import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
deepspeed.add_config_arguments(parser)
args = parser.parse_args()
model = torch.nn.Linear(8, 8)
engine, _, loader, _ = deepspeed.initialize(
    args=args, model=model, training_data=torch.zeros(100, 8)
)
for batch in loader:
    loss = engine(batch).sum()
    engine.backward(loss)
    engine.step()

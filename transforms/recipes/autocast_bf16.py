"""bf16 for the forward pass and the loss."""

from __future__ import annotations

from collections.abc import Iterator

from pitstop.transforms.mixed_precision import autocast_region, chooses_precision
from pitstop.transforms.patch import Refused
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Op, Wrap
from pitstop.transforms.training_step import device_type, training_steps


class AutocastBf16(Recipe):
    """Compute the forward pass and the loss in bf16.

    The statements from the first call of the model to the loss go under `torch.autocast`; the
    backward pass and the optimizer stay outside, as autocast wants it. bf16 has the range of fp32,
    so that no gradient scaler is needed.

    Refused where the step has several backward passes, the loss is computed elsewhere, a library
    runs the step, or a loss such as `nn.BCELoss` raises under autocast.
    """

    id = "autocast-bf16"
    numerics = Numerics.PRECISION
    requires = ("torch>=1.10",)
    capability = (8, 0)
    answers = ("GEN-C01",)
    sources = (
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html",
    )
    examples = (
        Example(
            """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(6)]

for images, labels in batches:
    images, labels = images.to(device), labels.to(device)
    # forward
    logits = model(images)
    loss = criterion(logits, labels)
    # backward
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
""",
            """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(6)]

for images, labels in batches:
    images, labels = images.to(device), labels.to(device)
    # forward
    with torch.autocast(device.type, dtype=torch.bfloat16):
        logits = model(images)
        loss = criterion(logits, labels)
    # backward
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
""",
        ),
    )
    refuses = (
        Refusal(
            """\
from project import critic, generator, loader, optimizer

for real in loader:
    good = critic(real).mean()
    good.backward()
    bad = critic(generator(real)).mean()
    bad.backward()
    optimizer.step()
""",
            "several backward passes",
        ),
        Refusal(
            """\
from torch import nn
from project import loader, model, optimizer

criterion = nn.BCELoss()
for inputs, labels in loader:
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
""",
            "BCELoss",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """One `with` in each plain step."""
        if chooses_precision(case.module):
            return
        for step in training_steps(case):
            region = step if isinstance(step, Refused) else autocast_region(step)
            if isinstance(region, Refused):
                yield region
            else:
                device = device_type(case.module)
                yield Wrap(region, f"with torch.autocast({device}, dtype=torch.bfloat16):")

"""Shapes of training steps: what the recipes of the hot loop understand, and what they leave."""

import pytest

from pitstop.rules.job import HardwareFacts
from pitstop.rules.tree import SourceFile
from pitstop.transforms.patch import Changed, Refused, apply_edits
from pitstop.transforms.recipe import recipes
from tests.transforms.recipe_texts import changed, left_alone

# --- autocast --------------------------------------------------------------------------------


def test_autocast_in_a_function_takes_the_device_of_the_file() -> None:
    text = """\
import torch

def train(model, device, loader, optimizer):
    model.train()
    for data, target in loader:
        data = data.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = torch.nn.functional.nll_loss(output, target)
        loss.backward()
        optimizer.step()

def main():
    device = torch.device("cuda")
    train(build().to(device), device, *parts())
"""
    assert changed("autocast-bf16", text) == text.replace(
        """\
        output = model(data)
        loss = torch.nn.functional.nll_loss(output, target)
""",
        """\
        with torch.autocast(device.type, dtype=torch.bfloat16):
            output = model(data)
            loss = torch.nn.functional.nll_loss(output, target)
""",
    )


def test_a_quotient_of_the_loss_is_understood() -> None:
    text = """\
for x in loader:
    loss = model(x)
    (loss / 4).backward()
    optimizer.step()
"""
    assert (
        changed("autocast-fp16", text)
        == """\
import torch
scaler = torch.amp.GradScaler("cuda")
for x in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x)
    scaler.scale(loss / 4).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    )


def test_continued_lines_and_texts_are_indented_as_they_should_be() -> None:
    text = '''\
for x in loader:
    loss = model(
        x,
        note="""
  as it is
""",
    )  # the loss
    loss.backward()
'''
    assert (
        changed("autocast-bf16", text)
        == '''\
import torch
for x in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(
            x,
            note="""
  as it is
""",
        )  # the loss
    loss.backward()
'''
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("    model(x).mean().backward()\n", "computed value"),
        ("    loss = model(x); loss.backward()\n", "shares its line"),
        ("    loss = model(x)\n    loss.backward(grad)\n", "vector"),
        ("    loss = model(x)\n    done = loss.backward()\n", "larger expression"),
        ("    loss = table[x]\n    loss.backward()\n", "no call of the model"),
        ("    loss = model(x)\n    optimizer.step()\n    loss = loss * 2\n    loss.backward()\n",
         "between forward and loss"),
        ("    x = x.half()\n    loss = model(x)\n    loss.backward()\n", ".half()"),
    ],
)  # fmt: skip
def test_steps_that_are_not_plain_are_refused(body: str, reason: str) -> None:
    assert reason in left_alone("autocast-bf16", f"for x in loader:\n{body}")


@pytest.mark.parametrize(
    "text",
    [
        "for x in loader:\n    with autocast():\n        loss = model(x)\n    loss.backward()\n",
        "def step(x, use_amp):\n    pass\nfor x in loader:\n    loss = model(x)\n"
        "    loss.backward()\n",
        "model.to(torch.bfloat16)\nfor x in loader:\n    loss = model(x)\n    loss.backward()\n",
    ],
)
def test_a_file_that_chooses_a_precision_is_left_alone(text: str) -> None:
    assert left_alone("autocast-bf16", text) == "nothing to change"


def test_the_gpu_must_be_able_to() -> None:
    file = SourceFile("train.py", recipes()["autocast-bf16"].examples[0].before)
    old = recipes()["autocast-bf16"].apply(file, hardware=HardwareFacts(capability=(7, 5)))
    assert isinstance(old, Refused)
    assert "8.0 is needed, the job's has 7.5" in old.reason


def test_pins_are_respected() -> None:
    file = SourceFile("train.py", recipes()["compile-model"].examples[0].before)
    recipe = recipes()["compile-model"]
    outcome = recipe.apply(file, versions={"torch": "==1.13.1"})
    assert outcome == Refused("torch>=2.2 is needed, which the project's pins exclude")
    assert isinstance(recipe.apply(file, versions={"torch": ">=2.4"}), Changed)


def test_an_older_torch_gets_the_scaler_it_has() -> None:
    file = SourceFile(
        "train.py", "for x in loader:\n    loss = model(x)\n    loss.backward()\n    opt.step()\n"
    )
    outcome = recipes()["autocast-fp16"].apply(file, versions={"torch": "==1.13.1"})
    assert isinstance(outcome, Changed)
    assert "scaler = torch.cuda.amp.GradScaler()\n" in apply_edits(file, outcome.patch.edits)


# --- values of the hot loop ------------------------------------------------------------------

LOOP = """\
def train(model, loader, optimizer):
    total = 0.0
    for step, batch in enumerate(loader):
        loss = model(batch)
        loss.backward()
        optimizer.step()
{body}    return {result}
"""


def loop(body: str, result: str = "total") -> str:
    return LOOP.format(body=body, result=result)


def test_a_sum_is_read_behind_the_loop() -> None:
    assert changed("loss-on-device", loop("        total += loss.item()\n")) == loop(
        "        total += loss.detach().double()\n    total = float(total)\n"
    )


def test_a_value_that_is_only_shown_now_and_then_is_fetched_then() -> None:
    body = """\
        value = loss.item()
        if step % 10 == 0:
            print(value)
"""
    wanted = """\
        value = loss.detach()
        if step % 10 == 0:
            value = float(value)
            print(value)
"""
    assert changed("loss-on-device", loop(body, "0")) == loop(wanted, "0")


def test_what_only_prints_is_not_its_business() -> None:
    assert left_alone("loss-on-device", loop("        print(loss.item())\n")) == "nothing to change"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("        log({'loss': loss.item()})\n", "used in every step"),
        ("        if loss.item() > 9:\n            break\n", "used in every step"),
        ("        self.total += loss.item()\n", "used in every step"),
        ("        total += loss.item() * weights.sum()\n", "used in every step"),
        ("        total += penalty.item()\n", "neither the loss nor a count"),
        ("        total += loss.item()\n        bar.set(total)\n", "read in every step"),
        ("        value = loss.item()\n        total += value\n", "read in every step"),
        (
            "        total += loss.item()\n        if total:\n            pass\n",
            "read in every step",
        ),
    ],
)
def test_values_that_steer_or_leave_the_step_are_refused(body: str, reason: str) -> None:
    assert reason in left_alone("loss-on-device", loop(body))


def test_a_sum_of_all_functions_is_refused() -> None:
    text = (
        "total = 0.0\ndef train():\n    global total\n    for x in loader:\n"
        "        loss = model(x)\n        loss.backward()\n        total += loss.item()\n"
    )
    assert "shared" in left_alone("loss-on-device", text)


def test_evaluation_is_left_alone() -> None:
    text = (
        "def evaluate(model, loader):\n    total = 0.0\n    for x in loader:\n"
        "        total += model(x).item()\n    return total\n" + loop("        total += 1\n")
    )
    assert left_alone("loss-on-device", text) == "nothing to change"


def test_a_list_that_gets_a_backward_pass_later_keeps_its_graphs() -> None:
    text = """\
losses = []
for x in loader:
    loss = model(x)
    loss.backward()
    losses.append(loss)
for one in losses:
    one.backward()
"""
    assert "backward pass of its own" in left_alone("detached-loss", text)


def test_only_the_step_that_a_finding_spoke_of_is_changed() -> None:
    text = loop("        total += loss.item()\n") + loop("        total += loss.item()\n").replace(
        "train", "tune"
    )
    file = SourceFile("train.py", text)
    start = text.index("loss.item()")
    at = file.location(start, start + len("loss.item()")).span
    outcome = recipes()["loss-on-device"].apply(file, at=at)
    assert isinstance(outcome, Changed)
    after = apply_edits(file, outcome.patch.edits)
    assert after.count("loss.item()") == 1
    assert after.index("loss.detach()") < after.index("loss.item()")


# --- printing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        ("for i, x in enumerate(loader):", "i"),
        ("for step in range(100):", "step"),
        ("for n, x in enumerate(tqdm(loader)):", "n"),
    ],
)
def test_the_loop_s_own_counter_is_used(head: str, wanted: str) -> None:
    text = f"{head}\n    loss = model()\n    loss.backward()\n    print(loss)\n"
    after = changed("log-now-and-then", text)
    assert after == text.replace("    print", f"    if {wanted} % 50 == 0:\n        print")


def test_a_taken_name_is_not_used_as_counter() -> None:
    text = "step = 1\nfor x in loader:\n    loss = model(x)\n    loss.backward()\n    print(loss)\n"
    assert "no counter" in left_alone("log-now-and-then", text)


def test_two_prints_share_one_counter() -> None:
    text = (
        "for x in loader:\n    loss = model(x)\n    loss.backward()\n    print(loss)\n"
        "    logger.info(loss.item())\n"
    )
    after = changed("log-now-and-then", text)
    assert after.count("enumerate") == 1
    assert after.count("if step % 50 == 0:") == 2


# --- removing --------------------------------------------------------------------------------


def test_gc_stays_imported_where_something_else_uses_it() -> None:
    text = (
        "import gc\nimport torch\ngc.disable()\nfor x in loader:\n    loss = model(x.cuda())\n"
        "    loss.backward()\n    gc.collect()\n"
    )
    assert changed("drop-cache-emptying", text) == text.replace("    gc.collect()\n", "")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("    if full:\n        gc.collect()\n", "only statement"),
        ("    freed = gc.collect()\n", "larger expression"),
        ("    # between phases\n    gc.collect()\n", "comment"),
    ],
)
def test_calls_with_a_purpose_stay(line: str, reason: str) -> None:
    text = f"import gc\nfor x in loader:\n    loss = model(x.cuda())\n    loss.backward()\n{line}"
    assert reason in left_alone("drop-cache-emptying", text)

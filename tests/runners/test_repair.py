"""Failures are understood by what jobs print; hostile text is only quoted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.runners.job import Ended, JobResult
from pitstop.runners.repair import clean, explain


def result(code: int | None = 1, ended: Ended = Ended.EXITED, reason: str = "") -> JobResult:
    return JobResult(ended, code, 1.0, None, reason=reason)


def traceback(last: str, frame: str = "/job/project/train.py") -> str:
    return (
        "loading\nTraceback (most recent call last):\n"
        f'  File "{frame}", line 12, in main\n    step()\n{last}\n'
    )


CASES = [
    (traceback("ModuleNotFoundError: No module named 'liger_kernel'"), "MISSING_MODULE"),
    (traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."), "CUDA_OOM"),
    (traceback("RuntimeError: The server socket has failed: [Errno 98]"), "PORT_IN_USE"),
    (traceback("RuntimeError: mat1 and mat2 must have the same dtype, but got x"), "DTYPE"),
    (traceback("RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3)"), "SHAPE"),
    (traceback("TypeError: f() got an unexpected keyword argument 'bf17'"), "CONFIG_ARG"),
    (traceback("ValueError: prefetch_factor option could only be specified in multiprocessing."),
     "CONFIG_VALUE"),
    (traceback("torch._dynamo.exc.Unsupported: call_function"), "COMPILE"),
    (traceback("FileNotFoundError: [Errno 2] No such file or directory: 'a.bin'"), "DATA_MISSING"),
    (traceback("RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly"), "HOST_OOM"),
    (traceback("AssertionError: Torch not compiled with CUDA enabled"), "NO_GPU"),
    (traceback("RuntimeError: Expected to have finished reduction in the prior iteration"),
     "AUTOGRAD_DDP"),
    (traceback("OSError: [Errno 28] No space left on device"), "DISK_FULL"),
    (traceback("OSError: [Errno 27] File too large"), "DISK_FULL"),
    (traceback("MyError: something of theirs"), "UNKNOWN"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), CASES)
def test_classes(text, kind):
    assert explain(text, result()).kind == kind


def test_the_sentence_names_the_package_and_the_frame_is_the_projects():
    found = explain(CASES[0][0], result())
    assert found.sentence == "the package liger_kernel is not installed where the job runs"
    assert found.frame == "train.py:main"


def test_an_unknown_error_is_quoted():
    assert explain(CASES[-1][0], result()).sentence == "MyError: something of theirs"


def test_another_ranks_failure_is_not_taken_for_the_cause():
    text = traceback("ValueError: the cause") + traceback(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED"
    )
    assert explain(text, result()).sentence == "ValueError: the cause"


@pytest.mark.parametrize(("code", "kind"), [(-9, "HOST_OOM"), (-11, "CRASH"), (3, "UNKNOWN")])
def test_without_words_the_exit_code_speaks(code, kind):
    assert explain("", result(code)).kind == kind


@pytest.mark.parametrize(
    ("ended", "kind"),
    [(Ended.DEADLINE, "DEADLINE"), (Ended.SILENT, "HANG"), (Ended.DISK, "DISK_FULL"),
     (Ended.MEMORY, "HOST_OOM"), (Ended.CANCELLED, "CANCELLED")],
)  # fmt: skip
def test_what_the_runner_ended_needs_no_words(ended, kind):
    assert explain("CUDA out of memory", result(None, ended, "why")).kind == kind


def test_the_same_failure_has_the_same_signature_whatever_its_numbers():
    one = explain(
        traceback("RuntimeError: shape '[3, 4]' is invalid for input of size 12"), result()
    )
    two = explain(
        traceback("RuntimeError: shape '[5, 6]' is invalid for input of size 99"), result()
    )
    assert one.signature == two.signature


def test_secrets_and_terminal_codes_are_taken_out():
    text = "\x1b[31mred\x1b[0m token=abc123 hf_abcdefghijk \x07\x00 ghp_0123456789abcdef"
    assert clean(text) == "red *** ***  ***"


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=400), st.integers(-20, 200))
def test_any_text_gives_one_sentence(text, code):
    found = explain("Traceback (most recent call last):\n" + text, result(code))
    assert found.sentence
    assert "\n" not in found.sentence
    assert len(found.lines) <= 40

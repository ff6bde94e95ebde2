"""What an ended job still has to say is waited for, and not for ever."""

import threading
import time

import pytest

from pitstop.runners import output
from pitstop.runners.output import CappedLog, finish


@pytest.fixture
def log(tmp_path):
    return CappedLog(tmp_path / "job.log", 10_000)


def reading(work) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_slow_reader_is_waited_for_while_something_comes(log, monkeypatch):
    monkeypatch.setattr(output, "QUIET", 1.0)

    def work():
        for number in range(15):
            time.sleep(0.1)
            log.write(f"{number}\n".encode())

    finish(reading(work), log)
    log.close()
    assert log.path.read_text().endswith("14\n")


def test_what_says_nothing_is_not_waited_for(log, monkeypatch):
    monkeypatch.setattr(output, "QUIET", 0.2)
    stop = threading.Event()
    reader = reading(stop.wait)
    finish(reader, log)
    assert reader.is_alive()
    stop.set()


def test_what_never_ends_is_left(log, monkeypatch):
    monkeypatch.setattr(output, "LONGEST", 0.5)
    stop = threading.Event()

    def work():
        while not stop.wait(0.05):
            log.write(b"still here\n")

    reader = reading(work)
    finish(reader, log)
    assert reader.is_alive()
    stop.set()

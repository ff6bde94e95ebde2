"""What only the local runner promises: strangers are left alone, strays are found again."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from pitstop.runners.job import Ended, Job, Limits
from pitstop.runners.local_runner import LocalRunner, inherited, reap


def test_a_stranger_survives(python_job):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        job = python_job("import time; time.sleep(60)", limits=Limits(seconds=0.5, grace=0.2))
        assert LocalRunner().run(job).ended is Ended.DEADLINE
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_what_a_killed_run_left_is_reaped(tmp_path):
    stray = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={**os.environ, "PITSTOP_JOB": "m1"},
    )
    (tmp_path / "job.json").write_text(json.dumps({"group": stray.pid, "mark": "m1"}))
    assert reap(tmp_path, grace=0.5)
    assert stray.wait(5) != 0
    assert not reap(tmp_path)


def test_a_number_that_now_belongs_to_another_is_left_alone(tmp_path):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (tmp_path / "job.json").write_text(json.dumps({"group": stranger.pid, "mark": "m2"}))
        assert not reap(tmp_path)
        time.sleep(0.1)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_broken_note_reaps_nothing(tmp_path):
    for text in ("", "[]", '{"mark": 3}', "{"):
        (tmp_path / "job.json").write_text(text)
        assert not reap(tmp_path)
    assert not reap(Path(tmp_path / "absent"))


def test_what_is_inherited():
    kept, left = inherited(
        {
            "PATH": "/bin",
            "HF_HOME": "/c",
            "CUDA_VISIBLE_DEVICES": "0",
            "HF_TOKEN": "t",
            "AWS_SECRET_ACCESS_KEY": "s",
            "GITHUB_SHA": "1",
            "INPUT_X": "2",
        }
    )
    assert kept == {"PATH": "/bin", "HF_HOME": "/c", "CUDA_VISIBLE_DEVICES": "0"}
    assert left == ("AWS_SECRET_ACCESS_KEY", "GITHUB_SHA", "HF_TOKEN", "INPUT_X")


def test_sockets_can_be_made_in_the_temporary_folder(python_job, tmp_path):
    program = "import multiprocessing.connection as c; c.Listener(family='AF_UNIX').close()"
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    job = python_job(program)
    assert LocalRunner().run(Job(job.name, job.command, job.folder, deep / "scratch")).ok

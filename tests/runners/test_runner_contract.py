"""What every runner promises, whatever it runs jobs on."""

import threading
import time

from pitstop.runners.job import Ended, Job, Limits, RunnerError

SLEEPER = "import time\nprint('on', flush=True)\ntime.sleep(600)"


def test_a_job_that_succeeds(runner, python_job):
    lines: list[str] = []
    result = runner.run(python_job("print('hello'); print('there')"), on_line=lines.append)
    assert result.ok
    assert (result.ended, result.exit_code, result.dropped) == (Ended.EXITED, 0, 0)
    assert lines == ["hello", "there"]
    assert result.text() == "hello\nthere\n"


def test_an_exit_code_is_told(runner, python_job):
    result = runner.run(python_job("raise SystemExit(7)"))
    assert (result.ended, result.exit_code, result.ok) == (Ended.EXITED, 7, False)


def test_what_goes_to_stderr_is_in_the_log(runner, python_job):
    result = runner.run(python_job("import sys; print('oops', file=sys.stderr); 1 / 0"))
    assert "oops" in result.text()
    assert "ZeroDivisionError" in result.text()


def test_it_runs_where_it_is_told_to_with_the_environment_given(runner, python_job, tmp_path):
    (tmp_path / "project" / "sub").mkdir(parents=True)
    job = python_job("", cwd="sub", env={"BATCH": "32"})
    (job.folder / "sub" / "train.py").write_text(
        "import os; print(os.environ['BATCH'], os.path.basename(os.getcwd()))", "utf-8"
    )
    assert runner.run(job).text() == "32 sub\n"


def test_there_is_nothing_to_read_from(runner, python_job):
    assert runner.run(python_job("import sys; print(repr(sys.stdin.read()))")).text() == "''\n"


def test_no_secret_of_ours_reaches_the_job(new_runner, python_job, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "canary-1")
    monkeypatch.setenv("WANDB_API_KEY", "canary-2")
    monkeypatch.setenv("DB_PASSWORD", "canary-3")
    result = new_runner().run(python_job("import os; print(dict(os.environ))"))
    assert result.ok
    assert "canary" not in result.text()


def test_a_job_that_never_ends_is_ended(runner, python_job):
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    result = runner.run(python_job(deaf + SLEEPER, limits=Limits(seconds=2, grace=0.3)))
    assert result.ended is Ended.DEADLINE
    assert "2 s" in result.reason


def test_a_job_that_falls_silent_is_ended(runner, python_job):
    limits = Limits(seconds=60, grace=0.3, silence=1.5)
    assert runner.run(python_job(SLEEPER, limits=limits)).ended is Ended.SILENT


def test_a_cancelled_job_is_ended(runner, python_job):
    cancel = threading.Event()
    job = python_job(SLEEPER, limits=Limits(grace=0.3))
    result = runner.run(job, cancel=cancel, on_line=lambda line: cancel.set())
    assert result.ended is Ended.CANCELLED


def test_output_beyond_the_cap_loses_its_middle(runner, python_job):
    program = "print('first')\nfor n in range(40000):\n    print('x' * 99)\nprint('last')"
    result = runner.run(python_job(program, limits=Limits(seconds=60, output=50_000)))
    assert result.ok
    text = result.text()
    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert result.log.stat().st_size < 120_000
    assert result.dropped > 3_000_000
    assert "bytes left out" in text


def test_a_job_that_fills_the_disk_is_held(runner, python_job):
    program = """
import os, time
for n in range(400):
    with open(f"{n}.bin", "wb") as file:
        file.write(os.urandom(2**20))
time.sleep(60)
"""
    limits = Limits(seconds=60, grace=0.3, disk=40 * 2**20)
    result = runner.run(python_job(program, limits=limits))
    assert not result.ok
    assert result.ended in (Ended.DISK, Ended.EXITED)


def test_a_job_that_takes_too_much_memory_is_held(runner, python_job):
    limits = Limits(seconds=60, grace=0.3, memory=200 * 2**20)
    result = runner.run(python_job("held = bytearray(600 * 2**20)\n" + SLEEPER, limits=limits))
    assert not result.ok
    assert result.ended in (Ended.MEMORY, Ended.EXITED)


def test_processes_that_a_job_leaves_behind_are_ended(runner, python_job, tmp_path):
    program = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in range(600):
            open("beat", "w").write(str(n))
            time.sleep(0.05)
    os._exit(0)
time.sleep(0.5)
"""
    job = python_job(program)
    assert runner.run(job).ok
    first = (job.folder / "beat").read_text()
    time.sleep(0.5)
    assert (job.folder / "beat").read_text() == first


def test_a_program_that_is_not_there_is_said(runner, python_job):
    job = python_job("")
    missing = Job("job", ("no-such-program-here",), job.folder, job.scratch)
    try:
        runner.preflight(missing)
        said = runner.run(missing).text()
    except RunnerError as error:
        said = str(error)
    assert "no-such-program-here" in said


def test_names_of_files_that_are_no_text_do_not_stop_a_run(runner, python_job):
    result = runner.run(python_job("import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n')"))
    assert result.ok
    assert result.text() == "��\n"

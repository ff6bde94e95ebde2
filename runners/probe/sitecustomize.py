"""Counts and times the optimizer steps of a training job, without a change to its code.

Python runs this file at its start when its folder is on PYTHONPATH, in the job and in every
process that the job starts. It does nothing but wait for PyTorch to be imported; then it hangs
hooks into it. `probe.json` beside this file says what is wanted (see `pitstop.runners.probing`).
At the last wanted step the measurements are written, and the process ends with success.

Whatever goes wrong in here is written to a file and otherwise ignored: a job must never fail,
and never train otherwise, because it is watched.

https://docs.python.org/3/library/site.html, https://docs.python.org/3/reference/import.html
"""

import functools
import importlib.machinery
import importlib.util
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def chain():
    """Run the sitecustomize that this one hides, as Python would have done."""
    paths = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class Finder:
    """Lets modules load as ever, and hangs the hooks in when they have."""

    def __init__(self, probe, hooks):
        self.probe = probe
        self.waiting = dict(hooks)

    def find_spec(self, name, path=None, target=None):
        """Find a module of the table by the other finders, and wrap its loader.

        A module stays in the table until it is loaded: libraries look for others (`find_spec`)
        long before anything imports them.
        """
        if name not in self.waiting:
            return None
        spec = None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
        if spec is not None and hasattr(spec.loader, "exec_module"):
            try:
                spec.loader.exec_module = self.executing(spec.loader.exec_module, name)
            except AttributeError as error:
                self.probe.problem(name, error)
        return spec

    def executing(self, real, name):
        """A loader's `exec_module` that installs the hooks of its module afterwards."""

        @functools.wraps(real)
        def exec_module(module):
            real(module)
            self.install(name, module)

        return exec_module

    def install(self, name, module):
        """Hang the hooks of a module in, once."""
        install = self.waiting.pop(name, None)
        if install is not None:
            try:
                install(self.probe, module)
            except Exception as error:
                self.probe.problem(name, error)


def watch():
    """Read what is wanted, and wait for PyTorch."""
    import atexit
    import faulthandler
    import signal

    import pitstop_hooks
    import pitstop_watch

    with open(os.path.join(HERE, "probe.json"), encoding="utf-8") as file:
        config = json.load(file)
    probe = pitstop_watch.Probe(config, os.path.normpath(os.path.join(HERE, config["out"])))
    if not os.path.isdir(probe.out):
        return
    if config["seed"] is not None:
        pitstop_hooks.seed_python(probe)
    finder = Finder(probe, pitstop_hooks.MODULES)
    sys.meta_path.insert(0, finder)
    for name in list(finder.waiting):
        if name in sys.modules:  # a .pth file may have imported it already
            finder.install(name, sys.modules[name])
    atexit.register(probe.at_exit)
    report_errors(probe)
    try:
        faulthandler.register(signal.SIGUSR1)
    except (AttributeError, OSError, ValueError, RuntimeError) as error:
        probe.problem("faulthandler", error)


def report_errors(probe):
    """Write an exception that nobody caught down, then do what is done anyway."""
    following = sys.excepthook

    def excepthook(kind, error, trace):
        try:
            probe.on_error(kind, error, trace)
        except Exception as problem:
            probe.problem("excepthook", problem)
        following(kind, error, trace)

    sys.excepthook = excepthook


def begin():
    """Watch, where this file lies in a job; elsewhere it is only read."""
    if not os.path.exists(os.path.join(HERE, "probe.json")):
        return
    try:
        watch()
    except Exception as error:
        try:
            with open(os.path.join(HERE, "failed_{}.txt".format(os.getpid())), "w") as log:
                log.write("{}: {}\n".format(type(error).__name__, error))
        except OSError:
            pass
    chain()


if __name__ == "sitecustomize":
    begin()

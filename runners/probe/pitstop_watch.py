"""What the probe keeps of one process, and the end that it puts to it."""

import os
import sys
import time
import weakref

import pitstop_facts as facts

KEPT_LOSSES = 4096
"""Steps whose losses are kept: on a GPU each is a tensor until the end."""

TRACED_RANKS = 8
"""Ranks that write a trace; a file has tens of megabytes."""


class Probe:
    """What one process has seen. All times are seconds of `time.perf_counter`."""

    def __init__(self, config, out):
        self.config = config
        self.out = out
        self.pid = os.getpid()
        self.primary = None
        self.adapter = None
        self.ticks = []
        self.events = []
        self.losses = []
        self.loss_now = []
        self.unscaled = {}
        self.inside_engine = False
        self.grad_norms = []
        self.data_wait = []
        self.samples = []
        self.tokens = []
        self.useful = []
        self.now = [0.0, None, None, None]
        self.hooks = 0.0
        self.parameters = None
        self.optimizer = ""
        self.start_peaks = None
        self.saves = 0
        self.trainer_ticks = 0
        self.idle_ends = 0
        self.profiler = None
        self.trace = None
        self.written = False
        self.problems = []

    # --- hooks ----------------------------------------------------------------------------------

    def guarded(self, function, begins=False):
        """A hook that never raises, adds its time to `hooks`, and is silent in other processes:
        those that a job forks load data. Where training `begins` in one, it is adopted."""

        def hook(*args, **keywords):
            if self.written or (os.getpid() != self.pid and not (begins and self.adopt())):
                return None
            begin = time.perf_counter()
            try:
                return function(*args, **keywords)
            except Exception as error:
                self.problem(function.__name__, error)
                return None
            finally:
                self.hooks += time.perf_counter() - begin

        # What torch.compiler.disable sets, without importing the compiler: called, not traced.
        hook._torchdynamo_disable = True
        hook._torchdynamo_disable_msg = "Pitstop's probe"
        return hook

    def adopt(self):
        """Start afresh in a forked process that trains; whether it is one."""
        if facts.in_loader_worker():
            return False
        from multiprocessing import util

        inherited = dict(self.__dict__)  # a forked process must not free what lies on a device
        self.__init__(self.config, self.out)
        self.inherited = inherited
        util.Finalize(self, self.at_exit, exitpriority=0)  # such a process skips atexit
        return True

    def problem(self, where, error):
        """Remember what went wrong, a few times."""
        if len(self.problems) < 20:
            self.problems.append("{}: {}: {}".format(where, type(error).__name__, error)[:300])

    def after_step(self, optimizer, *_):
        """An optimizer has made a step. Only the first that is seen counts, while it lives; then
        the first after another backward pass, so that no step counts twice."""
        if self.adapter is not None:
            return
        primary = self.primary() if self.primary is not None else None
        if primary is None:
            if any(self.losses) and not self.loss_now:
                return
            self.primary = weakref.ref(optimizer)
            self.look_at(optimizer)
        elif primary is not optimizer:
            return
        self.tick(optimizer)

    def before_engine_step(self, engine):
        """DeepSpeed is about to step: its optimizer's own steps do not count from now on."""
        if self.adapter is None:
            self.adapter = "deepspeed"
            self.look_at(engine.optimizer)

    def after_engine_step(self):
        """DeepSpeed has stepped."""
        self.tick()

    def after_trainer_step(self):
        """The Trainer says that a step is over. It is believed where no optimizer says so: a
        few times in a row may be fp16 skipping steps, which is over soon."""
        if self.adapter is None and len(self.ticks) == self.trainer_ticks:
            self.idle_ends += 1
            if self.idle_ends > 8:
                self.adapter = "trainer"
        self.trainer_ticks = len(self.ticks)
        if self.adapter == "trainer":
            self.tick()

    def look_at(self, optimizer):
        """Count what is trained."""
        self.optimizer = type(optimizer).__name__
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.parameters = sum(p.numel() for p in parameters if p.requires_grad)

    def tick(self, optimizer=None):
        """The end of a step."""
        torch = sys.modules["torch"]
        cuda = torch.cuda.is_initialized()
        if cuda:
            if torch.cuda.is_current_stream_capturing():
                return  # recorded once, replayed unseen: no step to time
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.events.append(event)
        self.ticks.append(time.perf_counter())
        self.losses.append(self.loss_now if len(self.losses) < KEPT_LOSSES else [])
        self.loss_now = []
        self.unscaled.clear()
        if self.config["deterministic"] and optimizer is not None:
            self.grad_norms.append(facts.norm(torch, optimizer))
        for kept, value in zip((self.data_wait, self.samples, self.tokens, self.useful), self.now):
            kept.append(value)
        self.now = [0.0, None, None, None]
        count = len(self.ticks)
        if count == max(1, self.config["warm_up"]):
            self.start_peaks = facts.peaks(torch)
            if cuda:
                torch.cuda.reset_peak_memory_stats()
            if self.config["profile"] and facts.rank() < TRACED_RANKS:
                self.start_profiler(torch)
        elif self.profiler is not None:
            self.profiler.step()
        if self.config["nsys"] and cuda:
            self.mark_range(torch, count - self.config["warm_up"])
        if self.config["stop"] and count >= self.config["steps"]:
            self.stop()

    def before_backward(self, tensors):
        """Keep the loss that a backward pass starts from, on its device."""
        roots = (tensors,) if not isinstance(tensors, (list, tuple)) else tensors
        if self.inside_engine or len(roots) != 1:
            return
        if hasattr(roots[0], "numel") and roots[0].numel() == 1:
            root = self.unscaled.get(id(roots[0]), roots[0])
            self.loss_now.append(facts.value_of(root))

    def after_scale(self, scaled, outputs):
        """A loss was multiplied for fp16: remember what it was."""
        if hasattr(outputs, "numel") and outputs.numel() == 1:
            self.unscaled[id(scaled)] = outputs.detach()

    def loss_given(self, loss, engine):
        """DeepSpeed was given a loss: it is kept as its part of a step."""
        self.before_backward(loss / engine.gradient_accumulation_steps())
        self.inside_engine = True

    def loss_passed(self):
        """DeepSpeed's backward pass is over."""
        self.inside_engine = False

    def after_batch(self, batch, waited):
        """A loader gave a batch."""
        self.now[0] += waited
        for index, value in enumerate(facts.batch_counts(batch), 1):
            if value is not None:
                self.now[index] = (self.now[index] or 0) + value

    # --- profile --------------------------------------------------------------------------------

    def start_profiler(self, torch):
        """Profile three steps after two more to warm up.

        https://docs.pytorch.org/docs/stable/profiler.html
        """
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self.profiler = torch.profiler.profile(
            activities=kinds,
            schedule=torch.profiler.schedule(wait=0, warmup=2, active=3, repeat=1),
            record_shapes=True,
            with_stack=self.config["stacks"],
            on_trace_ready=self.keep_trace,
        )
        self.profiler.start()

    def keep_trace(self, profiler):
        """Write the trace of the profiled steps."""
        name = "trace_{}_{}.json.gz".format(facts.rank(), self.pid)
        profiler.export_chrome_trace(os.path.join(self.out, name))
        self.trace = name

    def mark_range(self, torch, done):
        """Let Nsight Systems collect three steps (`--capture-range=cudaProfilerApi`).

        https://docs.nvidia.com/nsight-systems/UserGuide/index.html
        """
        if done == 2:
            torch.cuda.cudart().cudaProfilerStart()
        elif done == 5:
            torch.cuda.cudart().cudaProfilerStop()

    # --- the end --------------------------------------------------------------------------------

    def stop(self):
        """All wanted steps are done: write, wait for the other ranks, leave with success.

        Nothing is left to the job's own end, which would save and evaluate. A rank that leaves
        early makes launchers end the others.
        """
        try:
            self.write(stopped=True)
            self.wait_for_others()
        except Exception as error:
            self.problem("stop", error)
            self.note_problems()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        os._exit(0)

    def wait_for_others(self, seconds=30):
        """Wait until every rank of this machine has written its file: none is at work then."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            names = os.listdir(self.out)
            if sum(n[:5] == "rank_" and n[-5:] == ".json" for n in names) >= facts.ranks_here():
                return
            time.sleep(0.02)

    def at_exit(self):
        """The job ended by itself, before or without the last wanted step."""
        if os.getpid() == self.pid and self.ticks and not self.written:
            try:
                self.write(stopped=False)
            except Exception as error:
                self.problem("at_exit", error)
                self.note_problems()

    def note_problems(self):
        """Say what went wrong, where nothing else could be written."""
        try:
            facts.note({"problems": self.problems}, self.out, "problem_{}.json".format(self.pid))
        except Exception:
            pass

    def write(self, stopped):
        """Write everything to one file of this rank."""
        torch = sys.modules["torch"]
        hooks, self.written = self.hooks, True
        if self.profiler is not None:
            try:
                self.profiler.stop()
            except Exception as error:
                self.problem("profiler", error)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        record = {
            "rank": facts.rank(),
            "world": facts.world(),
            "pid": self.pid,
            "host_ticks": self.ticks,
            "device_steps": self.device_steps(),
            "losses": [[facts.number(loss) for loss in step] for step in self.losses],
            "grad_norms": [facts.number(norm) for norm in self.grad_norms],
            "data_wait": self.data_wait,
            "samples": self.samples,
            "tokens": self.tokens,
            "useful_tokens": self.useful,
            "trainable_parameters": self.parameters,
            "optimizer": self.optimizer,
            "hook_seconds": hooks,
            "saves_blocked": self.saves,
            "stopped": stopped,
            "trace": self.trace,
            "start_peaks": self.start_peaks,
            "peaks": facts.peaks(torch),
            "allocator": facts.allocator(torch),
            "peak_rss": facts.peak_rss(),
            "environment": facts.environment(torch),
            "problems": self.problems,
        }
        facts.note(record, self.out, "rank_{}_{}.json".format(record["rank"], self.pid))

    def device_steps(self):
        """Seconds between ticks by the device's own clock, where every tick has an event."""
        if len(self.events) != len(self.ticks) or len(self.events) < 2:
            return None
        pairs = zip(self.events, self.events[1:])
        return [before.elapsed_time(after) / 1e3 for before, after in pairs]

    def on_error(self, kind, error, trace):
        """An exception that nobody caught: write it down, then let Python go on."""
        import traceback

        lines = traceback.format_exception(kind, error, trace, limit=-40)
        record = {
            "rank": facts.rank(),
            "pid": os.getpid(),
            "at": time.time(),
            "type": kind.__name__,
            "message": str(error)[:2000],
            "text": "".join(lines)[-20000:],
            "ticks": len(self.ticks),
        }
        facts.note(record, self.out, "error_{}_{}.json".format(record["rank"], record["pid"]))

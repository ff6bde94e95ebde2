"""Traces: read whole or broken, measured by hand-made events whose figures are known."""

import contextlib
import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.runners.diagnosis import diagnose
from pitstop.runners.probing import ProbeRun, RankRun
from pitstop.runners.profile import family_of, read_profile
from pitstop.runners.traces.intervals import clipped, difference, intersection, length, union
from pitstop.runners.traces.reader import Trace, TraceError

STEP = 10_000.0


def event(cat: str, name: str, ts: float, dur: float, **args: object) -> dict:
    when = {"ts": ts, "dur": dur, "tid": 7, "pid": 0}
    return {"ph": "X", "cat": cat, "name": name, **when, "args": args}


def each(cat: str, name: str, at: float, took: float) -> list[dict]:
    """The same event in each of five steps, so many microseconds after its beginning."""
    return [event(cat, name, n * STEP + at, took) for n in range(5)]


def steps(count: int = 5) -> list[dict]:
    return [event("user_annotation", f"ProfilerStep#{n}", n * STEP, STEP) for n in range(count)]


def written(path: Path, events: list[dict], *, packed: bool = False, **header: object) -> Path:
    text = json.dumps({"schemaVersion": 1, **header, "traceEvents": events, "traceName": "t"})
    if packed:
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def job(kernel: str = "ampere_bf16_s16816gemm_nn", took: float = 9_500.0) -> list[dict]:
    """Five steps, in each one kernel of so many microseconds from the step's beginning."""
    return [*steps(), *each("kernel", kernel, 0, took)]


@pytest.mark.parametrize("packed", [False, True])
def test_events_come_one_by_one(tmp_path, packed):
    path = written(tmp_path / "t.json", steps(1000), packed=packed, distributedInfo={"rank": 3})
    trace = Trace(path)
    assert sum(1 for _ in trace.events()) == 1000
    assert trace.complete
    assert trace.header["distributedInfo"] == {"rank": 3}


@pytest.mark.parametrize("cut", [10, 200, 4000])
def test_a_trace_that_was_cut_off_gives_what_it_has(tmp_path, cut):
    path = written(tmp_path / "t.json", steps(100))
    path.write_text(path.read_text()[:-cut])
    trace = Trace(path)
    assert 0 < sum(1 for _ in trace.events()) <= 100
    assert trace.complete is (cut < 15)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"traceEvents": 3}', b"\x1f\x8b broken", b"\xff\xfe"]
)
def test_what_is_no_trace_is_said(tmp_path, data):
    (tmp_path / "t.json").write_bytes(data)
    with pytest.raises(TraceError):
        list(Trace(tmp_path / "t.json").events())


def test_an_event_of_any_size_is_bounded(tmp_path):
    (tmp_path / "t.json").write_text('{"traceEvents": [{"name": "' + "x" * 9_000_000)
    assert list(Trace(tmp_path / "t.json").events()) == []


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_end_in_events_or_one_error(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_bytes(b'{"traceEvents": [' + data)
        with contextlib.suppress(TraceError):
            assert all(isinstance(one, dict) for one in Trace(path).events())


INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda p: (min(p), max(p))), max_size=12
)


@settings(max_examples=150, deadline=None)
@given(INTERVALS, INTERVALS)
def test_interval_arithmetic_is_that_of_sets(one, two):
    def points(found):
        return {n for a, b in found for n in range(int(a), int(b))}

    a, b = union(one), union(two)
    assert points(a) == points(one)
    assert length(a) == len(points(one))
    assert points(intersection(a, b)) == points(one) & points(two)
    assert points(difference(a, b)) == points(one) - points(two)
    assert points(clipped(a, 10, 40)) == points(one) & set(range(10, 40))


def test_shares_add_up_and_steps_at_the_ends_are_dropped(tmp_path):
    events = [
        *job(took=4_000.0),
        *each("kernel", "ncclDevKernel_AllReduce", 3_000, 3_000),
        *(
            event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", n * STEP + 6_000, 500)
            for n in range(5)
        ),
    ]
    found = read_profile(written(tmp_path / "t.json", events))
    assert found.steps == 3
    assert found.compute == pytest.approx(0.40)
    assert found.communication == pytest.approx(0.20)
    assert found.copies == pytest.approx(0.05)
    assert found.idle == pytest.approx(0.35)
    assert found.overlap == pytest.approx(1 / 3)
    total = found.compute + found.communication + found.copies + found.idle
    assert total == pytest.approx(1)
    assert found.kernels[0].name == "ampere_bf16_s16816gemm_nn"
    assert found.kernels[0].tensor_core is True


def test_a_busy_gpu_is_compute_bound_and_nothing_else(tmp_path):
    found = diagnose(None, [read_profile(written(tmp_path / "t.json", job()))])
    assert [one.kind for one in found.bottlenecks] == ["COMPUTE_BOUND"]


CASES = {
    "DATA": [
        *job(took=5_000.0),
        *each("user_annotation", "enumerate(DataLoader)#x.__next__", 5_100, 4_700),
    ],
    "SYNC": [
        *job(took=8_000.0),
        *(event("cuda_runtime", "cudaStreamSynchronize", n * STEP + 8_050 + 400 * k, 350)
          for n in range(5) for k in range(4)),
    ],
    "LAUNCH": [
        *steps(),
        *(event("kernel", "vectorized_elementwise_kernel", n * STEP + 40.0 * k, 4.0)
          for n in range(5) for k in range(250)),
    ],
    "PRECISION": job("ampere_sgemm_128x64_tn"),
    "ELEMENTWISE": job("vectorized_elementwise_kernel<4>"),
    "LAYOUT": job("cudnn::nchwToNhwcKernel<float>"),
    "LOSS_HEAD": job("nll_loss_forward_reduce_cuda_kernel_2d"),
    "ATTENTION": job("softmax_warp_forward<float>"),
    "COMM": [
        *job(took=6_000.0),
        *each("kernel", "ncclDevKernel_ReduceScatter", 6_000, 3_500),
    ],
    "H2D": [
        *job(took=8_500.0),
        *each("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 8_600, 1_200),
    ],
    "OPTIMIZER": [
        *job(took=9_000.0),
        *each("user_annotation", "Optimizer.step#AdamW.step", 1_000, 2_000),
        *(event("cuda_runtime", "cudaLaunchKernel", n * STEP + 1_000 + 10 * k, 4)
          for n in range(5) for k in range(100)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CASES))
def test_each_kind_is_found_in_its_own_trace_first(kind, tmp_path):
    found = diagnose(None, [read_profile(written(tmp_path / "t.json", CASES[kind]))])
    assert found.bottlenecks[0].kind == kind
    assert found.bottlenecks[0].evidence[0].value >= found.bottlenecks[0].evidence[0].threshold


def test_waiting_for_data_beside_a_busy_gpu_costs_nothing(tmp_path):
    events = [
        *job(),
        *each("user_annotation", "enumerate(DataLoader)#x", 0, 9_000),
    ]
    found = diagnose(None, [read_profile(written(tmp_path / "t.json", events))])
    assert "DATA" not in [one.kind for one in found.bottlenecks]


def test_one_wait_in_a_step_is_normal(tmp_path):
    events = [
        *job(took=8_000.0),
        *(
            event("cuda_runtime", "cudaStreamSynchronize", n * STEP + 8_100, 1_500)
            for n in range(5)
        ),
    ]
    found = diagnose(None, [read_profile(written(tmp_path / "t.json", events))])
    assert "SYNC" not in [one.kind for one in found.bottlenecks]


def test_the_slowest_rank_is_a_straggler(tmp_path):
    paths = [
        written(tmp_path / f"{n}.json", job(took=took), distributedInfo={"rank": n})
        for n, took in enumerate((5_000.0, 5_000.0, 8_000.0))
    ]
    found = diagnose(None, [read_profile(path) for path in paths])
    assert "STRAGGLER" in [one.kind for one in found.bottlenecks]


def test_a_trace_of_the_host_alone_leaves_the_probe_to_speak(tmp_path):
    outer = [event("cpu_op", "aten::addmm", n * STEP - 10, 5_000) for n in range(1, 4)]
    events = [*steps(), *each("cpu_op", "aten::mm", 0, 4_000), *outer]
    profile = read_profile(written(tmp_path / "t.json", events))
    assert profile.kernels == ()
    assert [one.name for one in profile.operators] == ["aten::mm", "aten::addmm"]
    assert profile.operators[1].total == pytest.approx(3 * 1_000)
    ticks = tuple(0.1 * n for n in range(11))
    rank = RankRun(0, 1, 1, host_ticks=ticks, data_wait=(0.05,) * 11, alloc_retries=2)
    found = diagnose(ProbeRun((rank,)), [profile])
    assert [one.kind for one in found.bottlenecks] == ["DATA", "MEMORY_PRESSURE"]
    assert found.bottlenecks[0].severity == "high"


def test_without_a_run_nothing_is_claimed():
    assert diagnose(None).bottlenecks == ()
    assert diagnose(ProbeRun()).basis == "no run"


@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
        ("flash_fwd_splitkv_kernel", "attention"),
        ("nvjet_tst_192x192_64x4_1x2_h_bz_NNT", "matrix product"),
        ("void cudnn::winograd_nonfused::winograd", "convolution"),
        ("triton_poi_fused_add_mul_0", "elementwise"),
        ("multi_tensor_apply_kernel<adam>", "optimizer"),
        ("my_kernel", "other"),
    ],
)
def test_families_of_kernels(kernel, family):
    assert family_of(kernel) == family

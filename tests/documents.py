"""Finished documents made by hand, for tests that need a report to show something known."""

from __future__ import annotations

from dataclasses import replace

from profiler_doctor.analyzer.model import (
    Capture,
    Change,
    Diagnosis,
    Finding,
    HealthNote,
    RuleOutcome,
    Stake,
    StepSpread,
    Trial,
    Verdict,
    Where,
)
from profiler_doctor.analyzer.tables import KernelRow, MemoryRow, ModuleRow, OpRow, RooflineRow, SyncRow, Tables
from profiler_doctor.analyzer.timeline import Lane, Timeline
from profiler_doctor.analyzer.totals import CopyTotals, DeviceTotals, Step, StepTime, SyncTotals, Totals

MS = 1_000_000
NO_STAKE = Stake(ns_per_step=0, share=0.0, basis="no finding has an estimate")
CHANNELS_LAST = (
    "model = model.to(memory_format=torch.channels_last)\nimages = images.to(memory_format=torch.channels_last)"
)


def found(code: str, name: str, *findings: Finding) -> RuleOutcome:
    return RuleOutcome(code=code, name=name, status="found", findings=findings)


def clean(code: str, name: str, *findings: Finding) -> RuleOutcome:
    return RuleOutcome(code=code, name=name, status="clean", findings=findings)


def skipped(code: str, name: str, reason: str) -> RuleOutcome:
    return RuleOutcome(code=code, name=name, status="skipped", reason=reason)


def resnet() -> Diagnosis:
    """A run on a CPU: channels-last verified, compile rejected, thread-count not decided, one rule crashed."""
    return Diagnosis(
        subject="samples/resnet50.py",
        command=("profiler-doctor", "run", "samples/resnet50.py", "--", "--batch", "4"),
        environment={
            "python": "3.11.2",
            "torch": "2.13.0+cpu",
            "cpu": {"name": "AMD EPYC 7B13", "count": 2, "flags": ["avx2", "fma"]},
            "threads": 2,
            "load": 0.42,
            "git": "1991d38",
        },
        health=(HealthNote(code="MSR005", message="The profiler made the recorded steps 1.42 times as long."),),
        totals=_resnet_totals(),
        tables=Tables(
            ops=(
                OpRow(name="aten::mkldnn_convolution", count=53, time_ns=151 * MS, self_ns=150 * MS),
                OpRow(name="aten::native_batch_norm", count=53, time_ns=31 * MS, self_ns=30 * MS),
                OpRow(name="aten::clamp_min_", count=49, time_ns=12 * MS, self_ns=12 * MS),
            ),
            modules=(
                ModuleRow(name="ResNet_0", ops=3, time_ns=200 * MS),
                ModuleRow(name="ResNet_0/Sequential_0", ops=40, time_ns=60 * MS),
            ),
            memory=(
                MemoryRow(
                    device="cpu",
                    allocations=160,
                    allocated_bytes=900_000_000,
                    peak_bytes=410_000_000,
                    peak_op="aten::add",
                ),
            ),
            roofline=(
                RooflineRow(
                    op="aten::conv2d",
                    kind="convolution",
                    type="float",
                    device=-1,
                    calls=53,
                    time_ns=150 * MS,
                    flops=8_000_000_000,
                    bytes=500_000_000,
                ),
            ),
        ),
        outcomes=_resnet_outcomes(),
        joint_stake=Stake(ns_per_step=8 * MS, share=0.04, basis="edits of 1 finding replayed"),
        trials=_resnet_trials(),
        verdict=Verdict(sentence="Verified: channels-last makes a step 1.31 times as fast, with equal outputs."),
        timeline=Timeline(
            start_ns=0,
            end_ns=58 * MS,
            names=("aten::mkldnn_convolution", "aten::batch_norm"),
            lanes=(
                Lane(
                    name="thread 7 of process 7",
                    kind="thread",
                    busy_ns=50 * MS,
                    starts_ns=(0, 30 * MS, 41 * MS),
                    durs_ns=(29 * MS, 10 * MS, 12 * MS),
                    names=(0, 1, -1),
                    depths=(0, 1, 0),
                ),
            ),
            left_out=40,
        ),
        capture=Capture(
            folder=".profiler-doctor/20260101-120000-resnet50",
            script_exit=0,
            step_source="calls of ResNet",
            roots={"ResNet": 48},
            warmup_steps=3,
            recorded_steps=5,
            timed_steps=40,
            profiler_overhead=1.42,
            cold_step_ns=1_900 * MS,
            cut=("the budget of 120 s ended before compile could be tried a third time",),
        ),
    )


def _resnet_totals() -> Totals:
    return Totals(
        events=12_345,
        steps=tuple(Step(name=f"ProfilerStep#{n}", start_ns=n * 310 * MS, dur_ns=(300 + n) * MS) for n in range(1, 6)),
        step_ns=StepTime(median=212 * MS, low=208 * MS, high=219 * MS, basis="40 steps timed without the profiler"),
        timed_step_ns=(212 * MS, 208 * MS, 219 * MS, 211 * MS, 300 * MS),
        step_by_part={
            "convolution": 150 * MS,
            "normalization": 30 * MS,
            "pointwise": 18 * MS,
            "python between ops": 9 * MS,
            "pooling": 4 * MS,
            "matmul": 1 * MS,
        },
    )


def _resnet_outcomes() -> tuple[RuleOutcome, ...]:
    layout = Finding(
        message="Convolutions are 71 % of the step and read NCHW tensors.",
        stake=Stake(),
        where=Where(file="samples/resnet50.py", line=41, module="layer1.0.conv1", op="aten::conv2d"),
        evidence={"convolution_share": 0.71, "convolutions": 53, "time_ns": 150 * MS, "intervals_ns": [[0, 5 * MS]]},
        cures=("channels-last",),
    )
    graph = Finding(
        message="53 ops of the step keep a graph for a backward pass that never comes.",
        stake=Stake(ns_per_step=8 * MS, share=0.04, basis="host dispatch time of graph bookkeeping"),
        where=Where(
            file="samples/resnet50.py",
            line=77,
            excerpt=("def predict(images):", "    model.eval()", "\treturn model(images)", ""),
            excerpt_from=75,
        ),
        evidence={"ops_with_graph": 53},
        cures=("inference-mode",),
    )
    small = Finding(
        message="One scalar is read per step.", stake=Stake(ns_per_step=MS // 2, share=0.002, basis="replay")
    )
    return (
        found("LAY004", "nchw-convolution", layout),
        found("OPT004", "autograd-in-inference", graph),
        clean("SYN001", "scalar-read", small),
        clean("PRC004", "accidental-fp64"),
        skipped("LCH001", "host-bound-launch", "the trace has no GPU kernels"),
        skipped("LCH002", "tiny-kernel-flood", "the trace has no GPU kernels"),
        RuleOutcome(code="PYB006", name="per-sample-loop", status="crashed", reason="KeyError: 'dims'"),
    )


def _resnet_trials() -> tuple[Trial, ...]:
    changes = (
        Change(clock="cpu", ratio=1.31, low=1.27, high=1.35, pairs=40, verdict="faster"),
        Change(clock="wall", ratio=1.29, low=1.20, high=1.38, pairs=40, verdict="faster"),
    )
    return (
        Trial(
            fix="channels-last", verdict="verified", speedup=1.31, low=1.27, high=1.35, clock="cpu", changes=changes,
            outputs_equal=True, error=3e-7, tolerance=1e-4, cold_s=2.1, break_even_calls=43, cures=("LAY004",),
            before_ns=212 * MS, after_ns=162 * MS, snippet=CHANNELS_LAST, reason="faster on both clocks",
            before_spread=StepSpread(p50=211 * MS, p95=240 * MS, p99=266 * MS, steps=400),
            after_spread=StepSpread(p50=161 * MS, p95=180 * MS, p99=207 * MS, steps=400),
            before_peak_bytes=812_000_000, after_peak_bytes=921_000_000, noise=0.021,
            doubts=("Other programs shared the CPUs: the steps were interrupted 92 times a second.",),
        ),
        Trial(
            fix="compile", verdict="rejected", speedup=0.79, low=0.77, high=0.81, clock="cpu", outputs_equal=True,
            error=2e-7, tolerance=1e-4, cold_s=31.0, reason="slower", snippet="model = torch.compile(model)",
        ),
        Trial(
            fix="inference-mode", verdict="inconclusive", speedup=1.02, low=0.98, high=1.06, clock="cpu",
            outputs_equal=True, error=0.0, reason="the interval reaches from slower to faster", cures=("OPT004",),
            snippet="with torch.inference_mode():\n    model(images)",
        ),
        Trial(fix="thread-count", verdict="not_tried", reason="no rule asked for it", cures=("ENV001",)),
    )  # fmt: skip


def gpu_trace() -> Diagnosis:
    """A foreign trace of a GPU: host-bound, estimates alone, two devices, a veto, places in the trace."""
    launches = Finding(
        message="The device waits for the host: 76 % of the span is idle.",
        stake=Stake(ns_per_step=30 * MS, share=0.52, basis="replay without launch gaps"),
        evidence={
            "idle_share": 0.762,
            "kernels": 2700,
            "intervals_ns": [[1_000_000, 2_000_500], [2_000_000, 3_000_000]],
        },
        cures=("compile",),
    )
    layout = tuple(
        Finding(
            message=f"{n} transforms between NCHW and NHWC under aten::cudnn_convolution.",
            stake=Stake(ns_per_step=n * MS, share=n / 100, basis="replay without the transforms"),
            where=Where(module=f"layer{n}.conv", op="aten::cudnn_convolution"),
            cures=("channels-last",),
        )
        for n in (9, 5, 2)
    )
    return Diagnosis(
        subject="traces/a100_resnet.json.gz",
        command=("profiler-doctor", "analyze", "traces/a100_resnet.json.gz"),
        environment={"producer": "looks like PyTorch 2.0 to 2.3", "devices": ["NVIDIA A100-SXM4-40GB"]},
        health=(HealthNote(code="MSR002", message="12 kernels were launched before the trace began.", events=12),),
        totals=_gpu_totals(),
        tables=Tables(
            kernels=(
                KernelRow(
                    name="void cudnn::nchwToNhwcKernel<float, float, 0>(cudnn::Params<float>)",
                    count=633,
                    time_ns=15_100_000,
                ),
                KernelRow(name="sm80_xmma_fprop_implicit_gemm_tf32f32", count=318, time_ns=12 * MS),
            ),
            ops=(OpRow(name="aten::cudnn_convolution", count=159, time_ns=40 * MS, self_ns=20 * MS, gpu_ns=27 * MS),),
            modules=(ModuleRow(name="ResNet_0", ops=3, time_ns=60 * MS, gpu_ns=31 * MS),),
            syncs=(SyncRow(name="cudaStreamSynchronize", op="aten::item", count=7, time_ns=3 * MS, longest_ns=MS),),
            memory=(
                MemoryRow(
                    device="cuda:0",
                    allocations=9,
                    allocated_bytes=3_000_000,
                    peak_bytes=2_000_000,
                    peak_op="",
                    reserved_bytes=4_000_000,
                ),
            ),
            roofline=(
                RooflineRow(
                    op="aten::mm",
                    kind="matmul",
                    type="float",
                    device=0,
                    calls=4,
                    time_ns=10 * MS,
                    flops=100_000_000_000,
                    bytes=1_000_000_000,
                    bound="compute",
                    roof_ns=5 * MS,
                    peak_flops_per_s=20e12,
                    peak_bytes_per_s=1e12,
                ),
                RooflineRow(
                    op="aten::add",
                    kind="pointwise",
                    type="float",
                    device=0,
                    calls=9,
                    time_ns=8 * MS,
                    flops=500_000_000,
                    bytes=6_000_000_000,
                    bound="memory",
                    roof_ns=6 * MS,
                    peak_flops_per_s=20e12,
                    peak_bytes_per_s=1e12,
                ),
            ),
        ),
        outcomes=(
            found("LCH001", "host-bound-launch", launches),
            found("LAY001", "layout-transform-kernels", *layout),
            clean("SYN002", "explicit-sync-in-step"),
            skipped("OPT004", "autograd-in-inference", "not to be believed here (MSR001): the run was cold"),
        ),
        joint_stake=Stake(ns_per_step=32 * MS, share=0.55, basis="edits of 4 findings replayed together"),
        trials=(),
        verdict=Verdict(
            sentence="4 findings, together worth up to 55 % of the step by estimate; nothing verified yet."
        ),
    )


def _gpu_totals() -> Totals:
    return Totals(
        events=40_000,
        steps=tuple(Step(name=f"ProfilerStep#{n}", start_ns=n * 58 * MS, dur_ns=58 * MS) for n in range(3)),
        step_ns=StepTime(median=58 * MS, low=57 * MS, high=59 * MS, basis="3 recorded steps, profiler running"),
        span_ns=174 * MS, busy_ns=41 * MS, busy_kernels_ns=40 * MS, idle_ns=133 * MS,
        devices={"0": DeviceTotals(span_ns=174 * MS, busy_ns=41 * MS, idle_ns=133 * MS, kernels=2700)},
        kernels=2700, kernel_time_ns=44 * MS, launches=2700,
        copies={"Memcpy HtoD (Pageable -> Device)": CopyTotals(count=3, bytes=57_802_752, time_ns=5 * MS)},
        syncs=SyncTotals(count=7, time_ns=3 * MS),
        idle_by_cause={"launch_latency": 20 * MS, "op_dispatch": 80 * MS, "python": 30 * MS, "blocking_call": 3 * MS},
    )  # fmt: skip


def healthy() -> Diagnosis:
    """A run with nothing to report: no finding, no trial, no note."""
    return replace(
        resnet(),
        subject="samples/healthy.py",
        command=("profiler-doctor", "run", "samples/healthy.py"),
        health=(),
        outcomes=(clean("LAY004", "nchw-convolution"), clean("OPT004", "autograd-in-inference")),
        joint_stake=NO_STAKE,
        trials=(),
        verdict=Verdict(sentence="Nothing found that is worth 1 % of the step."),
    )


def empty() -> Diagnosis:
    """The least that a document can hold: a trace without an event."""
    return Diagnosis(
        subject="", command=(), environment={}, health=(), totals=Totals(), tables=Tables(), outcomes=(),
        joint_stake=NO_STAKE, trials=(), verdict=Verdict(sentence="Nothing could be examined."),
    )  # fmt: skip


NASTY = (
    "<script>alert('name')</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"quoted\" & 'single' `ticks` | pipe [bold]markup[/bold] {{ 7*7 }} ${x} %{y} $a^2$",
    "emoji 🩺🔥 漢字 é",
    "controls \x1b[31m red \x00 \u202e reversed \ud800 half",
    "long " + "x" * 10_000,
)
"""Names that break careless reports."""


def hostile(name: str) -> Diagnosis:
    """The documents above with `name` in every place that a user's program or trace can fill."""
    finding = Finding(
        message=f"{name} is slow",
        stake=Stake(ns_per_step=MS, share=0.5, basis=name),
        where=Where(file=name, line=1, module=name, op=name, excerpt=(name, name), excerpt_from=1),
        evidence={name: name, "nested": {name: [name, {name: 1}]}, "intervals_ns": [[1, 2]]},
        cures=(name,),
    )
    trial = Trial(
        fix=name, verdict="verified", speedup=2.0, low=1.9, high=2.1, reason=name, cures=("A001",), snippet=name
    )
    base = resnet()
    totals = replace(base.totals, step_by_part={name: 10, "b": 20}, steps=(Step(name=name, start_ns=0, dur_ns=5),) * 3)
    tables = Tables(
        kernels=(KernelRow(name=name, count=1, time_ns=1),),
        ops=(OpRow(name=name, count=1, time_ns=1, self_ns=1),),
        modules=(ModuleRow(name=name, ops=1, time_ns=1),),
        syncs=(SyncRow(name=name, op=name, count=1, time_ns=1, longest_ns=1),),
        memory=(MemoryRow(device=name, allocations=1, allocated_bytes=1, peak_bytes=1, peak_op=name),),
        roofline=(
            RooflineRow(op=name, kind=name, type=name, device=0, calls=1, time_ns=1, flops=1, bytes=1, bound=name),
        ),
    )
    outcomes = (found("A001", name, finding), clean("A002", name, finding), skipped("A003", name, name),
                RuleOutcome(code="A004", name=name, status="crashed", reason=name))  # fmt: skip
    capture = (
        replace(base.capture, step_source=name, roots={name: 1}, cut=(name,), folder=name) if base.capture else None
    )
    assert base.timeline is not None
    lanes = tuple(replace(lane, name=name) for lane in base.timeline.lanes)
    tried = (
        trial,
        replace(trial, fix=f"r{name}", verdict="rejected"),
        replace(trial, fix=f"i{name}", verdict="inconclusive"),
    )
    return replace(
        base, subject=name, command=("profiler-doctor", "run", name), environment={name: name, "nested": {name: name}},
        health=(HealthNote(code=name, message=name),), totals=totals, tables=tables, outcomes=outcomes, trials=tried,
        verdict=Verdict(sentence=name), capture=capture,
        timeline=replace(base.timeline, names=(name, name), lanes=lanes),
    )  # fmt: skip

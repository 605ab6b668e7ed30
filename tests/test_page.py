"""The page: one file, no request, under 3 MB whatever comes, readable without scripts, nothing runs but ours."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace

import pytest

from profiler_doctor.analyzer.model import Diagnosis, Finding, HealthNote, Stake, Trial
from profiler_doctor.analyzer.tables import KernelRow, ModuleRow, OpRow, SyncRow, Tables
from profiler_doctor.analyzer.totals import Step
from profiler_doctor.reports import page as page_module
from profiler_doctor.reports.page import render
from profiler_doctor.reports.page_frame import prose
from tests import documents
from tests.page_text import PageText

THREE_MB = 3_000_000


def parsed(document: Diagnosis) -> PageText:
    return PageText(render(document, None).decode("utf-8"))


def enormous() -> Diagnosis:
    """More of everything than any run gives, each name 10,000 signs that HTML has to escape."""
    name = '"<&>' * 2_500
    finding = Finding(
        message=name, stake=Stake(share=0.4, basis=name), evidence={f"{n}{name}": name for n in range(100)}
    )
    outcomes = [documents.found(f"T{n:03}", name, *([finding] * 100)) for n in range(200)]
    outcomes += [documents.skipped(f"S{n:03}", name, f"{n}{name}") for n in range(300)]
    trials = [
        Trial(fix=f"{n}{name}", verdict="rejected", speedup=1.0, low=0.5, high=2.0, snippet=name, reason=name)
        for n in range(300)
    ]
    return replace(
        documents.hostile(name),
        outcomes=tuple(outcomes),
        trials=tuple(trials),
        health=tuple(HealthNote(code=name, message=f"{n}{name}") for n in range(500)),
        environment={f"{n}{name}": name for n in range(2000)},
        tables=Tables(
            kernels=tuple(KernelRow(name=name, count=n, time_ns=n) for n in range(5000)),
            ops=tuple(OpRow(name=name, count=n, time_ns=n, self_ns=n) for n in range(5000)),
            modules=tuple(ModuleRow(name=name, ops=n, time_ns=n) for n in range(5000)),
            syncs=tuple(SyncRow(name=name, op=name, count=n, time_ns=n, longest_ns=n) for n in range(5000)),
            roofline=documents.hostile(name).tables.roofline * 5000,
        ),
        totals=replace(
            documents.resnet().totals,
            steps=tuple(Step(name=name, start_ns=n, dur_ns=n) for n in range(100_000)),
            step_by_part={f"{n}{name}": n for n in range(5000)},
            timed_step_ns=tuple(range(100_000)),
        ),
    )


@pytest.mark.parametrize(
    "document", [documents.resnet(), documents.gpu_trace(), enormous()], ids=["run", "trace", "enormous"]
)
def test_the_page_stays_under_three_megabytes(document: Diagnosis) -> None:
    assert len(render(document, None)) < THREE_MB


def test_what_was_cut_is_said() -> None:
    text = parsed(enormous()).text

    assert "more findings stand in diagnosis.json" in text
    assert re.search(r"\d+ recorded steps, each bar the longest of \d+", text.replace(",0", "0"))


def test_nothing_in_it_asks_for_another_file() -> None:
    page = parsed(documents.resnet())

    asking = [
        (tag, name, value)
        for tag, name, value in page.attributes
        if name in ("src", "href", "action", "data", "srcset")
    ]
    assert all(value.startswith("#") or value == "data:," for _, _, value in asking)
    assert "url(" not in render(documents.resnet(), None).decode().split("</style>")[0]


def test_the_policy_lets_only_our_two_scripts_run() -> None:
    page = parsed(documents.resnet())

    (policy,) = [value for tag, name, value in page.attributes if tag == "meta" and value.startswith("default-src")]
    own = [content for kind, content in page.scripts if kind == "text/javascript"]
    packed = [content for kind, content in page.scripts if kind == "text/plain"]
    sources = [own[0].encode(), zlib.decompress(base64.b64decode(packed[0]))]
    fingerprints = [f"'sha256-{base64.b64encode(hashlib.sha256(source).digest()).decode()}'" for source in sources]
    assert len(own) == len(packed) == 1
    assert policy.startswith(f"default-src 'none'; script-src {fingerprints[0]} {fingerprints[1]};")


def test_plotly_is_inside_and_whole() -> None:
    (packed,) = [content for kind, content in parsed(documents.resnet()).scripts if kind == "text/plain"]

    source = zlib.decompress(base64.b64decode(packed)).decode("utf-8")

    assert source.startswith("/**\n* plotly.js")
    assert len(source) > 1_000_000


@pytest.mark.parametrize("name", documents.NASTY, ids=lambda name: name[:12])
def test_a_figure_is_json_that_cannot_leave_its_element(name: str) -> None:
    figures = [content for kind, content in parsed(documents.hostile(name)).scripts if kind == "application/json"]

    assert len(figures) == 3
    assert all(json.loads(figure)["data"] for figure in figures)
    assert not [figure for figure in figures if "<" in figure or ">" in figure or "&" in figure]


def test_without_scripts_it_tells_the_verdict_and_every_finding() -> None:
    text = parsed(documents.resnet()).text

    for told in (
        "Verified: channels-last makes a step 1.31 times as fast",
        "nchw-convolution LAY004",
        "verified: 24 % of the step",
        "samples/resnet50.py:41",
        "convolution share 71 %",
        "model = model.to(memory_format=torch.channels_last)",
        "up to 4.0 % of the step (estimate)",
        "aten::mkldnn_convolution 53 150 ms 151 ms",
        "convolution 71 % 150 ms",
        "AMD EPYC 7B13",
        "profiler-doctor run samples/resnet50.py -- --batch 4",
        "cold 1.90 s; profiler off 212 ms in the middle, 208 ms to 300 ms; profiler on 303 ms in the middle",
        "77 return model(images)",
        "inference-mode for OPT004 not decided 4.0 % 2.0 % -2.0 % to 5.7 %",
        "ResNet_0/Sequential_0 40 60.0 ms",
        "cpu 410 MB aten::add not known 160 900 MB",
        "aten::conv2d float 53 150 ms 53.3 GFLOP/s",
        "Show in the timeline",
        "profiler-doctor open .profiler-doctor/20260101-120000-resnet50 --at LAY004",
    ):
        assert told in text


def test_a_trace_of_a_gpu_shows_waits_memory_and_the_devices_limits() -> None:
    text = parsed(documents.gpu_trace()).text

    for told in (
        "cudaStreamSynchronize aten::item 7 3.00 ms 1.00 ms",
        "cuda:0 2.00 MB not known 4.00 MB 9 3.00 MB",
        "aten::mm float 4 10.0 ms 10.0 TFLOP/s 50 % compute",
        "aten::add float 9 8.00 ms 62.5 GFLOP/s 75 % memory",
        "ResNet_0 3 60.0 ms 31.0 ms",
    ):
        assert told in text
    assert "Show in the timeline" not in text  # the document has none
    assert "profiler-doctor open" not in text  # nor a folder that could be opened


def test_a_place_outside_of_the_timeline_has_no_link_into_it() -> None:
    run = documents.resnet()
    assert run.timeline is not None
    later = replace(run.timeline, start_ns=6_000_000, end_ns=64_000_000)

    assert "Show in the timeline" in parsed(run).text
    assert "Show in the timeline" not in parsed(replace(run, timeline=later)).text


def test_every_section_that_is_named_in_the_contents_is_there() -> None:
    page = parsed(documents.resnet())

    targets = {value for _, name, value in page.attributes if name == "href" and value.startswith("#")}
    places = {f"#{value}" for _, name, value in page.attributes if name == "id"}
    assert targets <= places
    assert {f"#{section.key}" for section in page_module.SECTIONS} <= targets


def test_a_document_with_nothing_to_draw_carries_no_plotly() -> None:
    assert len(render(documents.empty(), None)) < 100_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use `x < y` here", "use <code>x &lt; y</code> here"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("one ` alone <b>", "one ` alone &lt;b&gt;"),
        ("`a` then ` alone", "<code>a</code> then ` alone"),
        ("`<script>`", "<code>&lt;script&gt;</code>"),
        ("``", "<code></code>"),
    ],
)
def test_what_stands_between_ticks_is_code_and_still_only_text(text: str, shown: str) -> None:
    assert prose(text) == shown

"""HolisticTraceAnalysis: load, and its breakdowns of time, of idle time and of kernels."""

from pathlib import Path

from hta.trace_analysis import TraceAnalysis


def run(path: Path) -> int:
    analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent))
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    return len(analysis.t.get_trace(0))

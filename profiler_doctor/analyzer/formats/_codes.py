"""Phases, categories and threads as written in a file → their codes in the columns; each spelling is looked at once."""

from __future__ import annotations

from profiler_doctor.analyzer.formats._arguments import Texts, is_number
from profiler_doctor.analyzer.formats._terms import CATEGORIES


class Phases(dict[object, int]):
    """Chrome phase → its byte, 0 for what is none."""

    def __missing__(self, phase: object) -> int:
        code = ord(phase) if isinstance(phase, str) and len(phase) == 1 and ord(phase) < 256 else 0
        self[phase] = code
        return code


class Categories(dict[object, int]):
    """Category as written → code in `texts`, which has it in today's terms; "" for none."""

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self.texts = texts

    def __missing__(self, written: object) -> int:
        known = CATEGORIES.get(written, written) if isinstance(written, str) else ""
        code = self[written] = self.texts[known]
        return code


class Threads(dict[tuple[object, object], int]):
    """(pid, tid) as written → code; what is neither an int of 64 bits nor text is taken as text, absent ones as ""."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[int | str, int | str], int] = {}
        self.of_process = Processes(self)

    def __missing__(self, pair: tuple[object, object]) -> int:
        key = (_thread_part(pair[0]), _thread_part(pair[1]))
        code = self[pair] = self.known.setdefault(key, len(self.known))
        return code


class Process(dict[object, int]):
    """tid as written → code of that thread of one process: an int is looked up several times faster than a pair."""

    def __init__(self, threads: Threads, pid: object) -> None:
        super().__init__()
        self.threads, self.pid = threads, pid

    def __missing__(self, tid: object) -> int:
        code = self[tid] = self.threads[self.pid, tid]
        return code


class Processes(dict[object, Process]):
    """pid as written → its threads."""

    def __init__(self, threads: Threads) -> None:
        super().__init__()
        self.threads = threads

    def __missing__(self, pid: object) -> Process:
        process = self[pid] = Process(self.threads, pid)
        return process


def _thread_part(value: object) -> int | str:
    if isinstance(value, str) or is_number(value):
        return value if isinstance(value, int | str) else str(value)
    return "" if value is None else str(value)

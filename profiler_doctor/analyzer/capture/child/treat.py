"""Put fixes in the place of a root module's call, and see what that costs and whether the answers stay the same.

The untreated side of a trial goes through all of this too, without a fix: the copies that a comparison makes change how
a process gets its memory from then on, and convolutions beside untouched memory looked 3–18 % faster (measured).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from profiler_doctor.analyzer.capture.child.compare import Shadow, Terms
from profiler_doctor.analyzer.capture.child.first_calls import FirstCalls, as_json
from profiler_doctor.analyzer.capture.child.holding import Holding
from profiler_doctor.analyzer.capture.child.leaves import duplicate
from profiler_doctor.analyzer.capture.child.users_function import modules_outside, why_not_repeatable
from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Machine, Root, Unsuitable

CALL_PLACE = "_compiled_call_impl"
"""Where torch looks for a module's replaced call, and where our watching of roots stands (`roots.py`)."""
SAMPLED_PER_AXIS = 3
FOLDED_BUFFERS = ("running_mean", "running_var")
"""Buffers that a fix may have folded into weights."""

Say = Callable[..., None]


def in_order(fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """Innermost first: copies of the model, then its layout, then a compiler, and flags around all of it."""
    return tuple(sorted(fixes, key=lambda fix: (fix.rank == 0, fix.excludes == ENGINE, not fix.freezes, fix.rank)))


class Treatment(Holding):
    """The fixes of one run, for the whole process and for every root module. Without fixes roots keep their call."""

    def __init__(self, torch: Any, fixes: tuple[Fix, ...], machine: Machine, say: Say) -> None:
        self.torch = torch
        self.fixes = in_order(fixes)
        self.machine = machine
        self.say = say
        self.roots: list[RootCall] = []
        self.unsuitable: list[str] = []
        self.notes: list[str] = []
        """What the fixes have to say of what they did, as a phrase each: which of several ways they took."""
        self._places: dict[str, int] = {}
        """Serial number of a root → its place in `roots`."""
        self._process = ExitStack()
        self._roots = ExitStack()
        self.watched_calls = 0
        """Calls so far that more was done in than the program's own work."""

    def set_up(self) -> None:
        """What the fixes do to the whole process."""
        for fix in self.fixes:
            if fix.set_up is not None:
                self._process.enter_context(fix.set_up(self.machine))

    def close(self) -> None:
        """Undo everything."""
        self._roots.close()
        self._process.close()

    def of(self, root: Root, compare_at: frozenset[int] = frozenset()) -> Callable[..., Any]:
        """What stands in for the root's call from now on; `compare_at`: which of its calls are held against copies.

        Raises:
            Exception: what a fix raises; but a fix that does not suit this root leaves it as it is.
        """
        why_not = why_not_repeatable(root.module)
        again = root.serial in self._places
        if why_not:
            return self._left_alone(root, f"the function cannot be called once more to compare its answers: {why_not}")
        shadow = self._shadow(root.module) if compare_at and not again else None
        begun = time.perf_counter()
        try:
            with unwatched(root.module):
                call = self._treated(root)
        except Unsuitable as why:
            return self._left_alone(root, str(why))
        stand_in = RootCall(root.module, call, self)
        if not again:
            stand_in.watch(shadow, compare_at, time.perf_counter() - begun)
        return self._kept(root, stand_in)

    def _left_alone(self, root: Root, why: str) -> Callable[..., Any]:
        if root.serial not in self._places:
            self.unsuitable.append(why)
        return self._kept(root, RootCall(root.module, root.call, self))

    def _kept(self, root: Root, stand_in: RootCall) -> RootCall:
        """One that a program makes anew in each step goes on where the one before it was: to treat it is its work."""
        place = self._places.get(root.serial)
        if place is None:
            if root.serial:
                self._places[root.serial] = len(self.roots)
            self.roots.append(stand_in)
        else:
            stand_in.calls = self.roots[place].calls
            self.roots[place] = stand_in
        return stand_in

    def stale(self) -> bool:
        """Whether weights changed under a fix that had frozen them."""
        return any(fix.freezes for fix in self.fixes) and any(root.weights_changed() for root in self.roots)

    def _treated(self, root: Root) -> Callable[..., Any]:
        module, call = root.module, root.call
        treats = [fix.treat for fix in self.fixes if fix.treat is not None]
        for treat in treats or (None,):
            args, kwargs = self._copied(root)
            if treat is None:  # copied all the same, as on the other side
                continue
            seen = Root(module, args, kwargs, call, signatures=self.machine.signatures)
            treated = self._roots.enter_context(treat(seen))
            module, call = getattr(treated, "module", module), getattr(treated, "call", treated)
            self.notes += filter(None, [getattr(treated, "note", "")])
        return call

    def _copied(self, root: Root) -> Any:
        """Arguments that a fix may use up."""
        try:
            return duplicate(self.torch, (root.args, dict(root.kwargs)))
        except Exception as error:
            raise Unsuitable(f"the model's arguments cannot be copied: {type(error).__name__}: {error}") from error

    def _shadow(self, module: Any) -> Shadow:
        allowed = max((fix.tolerance or 0.0 for fix in self.fixes), default=0.0)
        # a compiler must not see us watch hooks: it would compile that in
        compiles = any(fix.rank >= COMPILER_RANK for fix in self.fixes)
        terms = Terms(allowed, watch_hooks=not compiles, trains=self.machine.training)
        return Shadow(self.torch, module, terms, untreated=self._suspended)

    @contextmanager
    def _suspended(self) -> Iterator[None]:
        """The process without its treatment, for the copies to run in."""
        if not any(fix.set_up for fix in self.fixes):
            yield
            return
        self._process.close()
        try:
            yield
        finally:
            self.set_up()


class RootCall:
    """One root's call from now on. It counts; at first it also times and compares, afterwards it passes on."""

    def __init__(self, module: Any, call: Callable[..., Any], treatment: Treatment) -> None:
        self.calls = 0
        self._call = call
        self._module = module
        self._treatment = treatment
        self._first: FirstCalls | None = None
        self._later: FirstCalls | None = None
        self._number = len(treatment.roots)
        self._weights = self._stamps()
        self._users = _users_own(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call in the place of the root's."""
        self.calls += 1
        if self._first is not None:
            with unwatched(self._module):
                return self._watched(self._first, args, kwargs)
        if self._later is not None and self._later.shapes.new(args, kwargs):
            with unwatched(self._module):
                return self._watched(self._later, args, kwargs)
        own = vars(self._module)
        watcher = own.get(CALL_PLACE, own)
        if watcher is own:  # what watches this module stands in its class
            return self._call(*args, **kwargs)
        own[CALL_PLACE] = self._users
        try:
            return self._call(*args, **kwargs)
        finally:
            own[CALL_PLACE] = watcher

    def watch(self, shadow: Shadow | None, compare_at: frozenset[int], treating_s: float) -> None:
        """Time the first calls and, where there is a shadow, hold some of them against it, and later other shapes."""
        self._first = FirstCalls(self._call, shadow, compare_at, treating_s)

    def weights_changed(self) -> bool:
        """Whether a weight is another, or holds other values, than when the treatment began."""
        return self._stamps() != self._weights

    def _watched(self, first: FirstCalls, args: Any, kwargs: Mapping[str, Any]) -> Any:
        self._treatment.watched_calls += 1
        try:
            output = first.call(args, kwargs)
        except Exception as error:
            self._first = self._later = None
            self._treatment.say("failed", error=f"{type(error).__name__}: {error}")
            raise
        if first.over:
            self._first, self._later = None, first if first.compares else None
            self._treatment.say(
                "treated",
                root=self._number,
                cold_s=first.cold_s,
                comparison=as_json(first.comparison),
                notes=list(dict.fromkeys(self._treatment.notes)),
            )
        return output

    def _stamps(self) -> list[tuple[Any, ...]]:
        """Where each weight lies, which version it is, and some of its values (`weight.data` changes no version)."""
        if not any(fix.freezes for fix in self._treatment.fixes):
            return []
        buffers = [buffer for name, buffer in self._module.named_buffers() if name.endswith(FOLDED_BUFFERS)]
        holders = [self._module, *modules_outside(self._module)]
        weights = [weight for module in holders for weight in module.parameters()]
        return [_stamp(tensor) for tensor in [*weights, *buffers]]


def _stamp(tensor: Any) -> tuple[Any, ...]:
    some = tuple(slice(None, None, max(1, size // SAMPLED_PER_AXIS)) for size in tensor.shape)
    return tensor.data_ptr(), -1 if tensor.is_inference() else tensor._version, tensor.detach()[some].tolist()


@contextmanager
def unwatched(module: Any) -> Iterator[None]:
    """The module as it is without our watching, so that a compiler does not compile that in."""
    own = vars(module)
    watcher = own.get(CALL_PLACE, own)
    own[CALL_PLACE] = _users_own(module)
    try:
        yield
    finally:
        own[CALL_PLACE] = watcher
        if watcher is own:
            del own[CALL_PLACE]


def _users_own(module: Any) -> Any:
    """What the user's own `module.compile()` had put there."""
    return getattr(vars(module).get(CALL_PLACE), "compiled", None)

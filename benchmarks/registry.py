"""What a benchmark case is, and where cases are found.

A case is a function that builds the inputs of one size, with a truth and any number of contenders hung on it:

```python
@case("row-kl", group="tensors", sizes={"64 x 32000": (64, 32_000)}, rtol=1e-5)
def row_kl(size): ...                           # -> state: the inputs, shared by truth and contenders

@row_kl.truth
def _(state): ...                               # float64 or better

@row_kl.contender("kullback", needs=("kullback:kl",))
def _(state): ...
```

Every module of `benchmarks/cases/` is imported by `discover()`; nothing else has to be edited to add one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SUBJECT = "kullback"

Run = Callable[[Any], Any]


@dataclass(frozen=True)
class Contender:
    """One way to compute a case's result.

    Attributes:
        name: What the table calls it; the one named `"kullback"` is the subject, the others are its baselines.
        run: state -> result (a tensor, or a tuple of tensors).
        needs: `"module"` or `"module:attribute"` names without which it is reported as missing.
        yardstick: It computes something else, whose time is worth knowing; its result is not judged.
    """

    name: str
    run: Run
    needs: tuple[str, ...] = ()
    yardstick: bool = False

    def missing(self) -> str | None:
        """Why this contender cannot run here, or None if it can."""
        for need in self.needs:
            module_name, _, attribute = need.partition(":")
            try:
                module = importlib.import_module(module_name)
            except ImportError as error:
                return f"{module_name} cannot be imported: {error}"
            if attribute and not hasattr(module, attribute):
                return f"{module_name} has no {attribute}"
        return None


@dataclass
class Case:
    """A quantity to compute, at several sizes, by several contenders.

    Attributes:
        name: Unique, used on the command line.
        group: The room it measures.
        sizes: label -> what `setup` is called with.
        setup: size -> state.
        rtol: Largest relative error that passes the gate.
        floor: The relative error of an entry is |x - truth| / max(|truth|, floor): entries below the floor are
            judged by their absolute error. 0 (the default) judges every entry by its own size.
        by_row: Entries of a matrix are judged by the largest of their row, as the library promises for gradients: one
            that is the difference of two nearly equal probabilities is small beside the error of either.
        summary: One sentence for the report.
    """

    name: str
    group: str
    sizes: Mapping[str, Any]
    setup: Callable[[Any], Any]
    rtol: float
    floor: float = 0.0
    summary: str = ""
    by_row: bool = False
    contenders: dict[str, Contender] = field(default_factory=dict)
    truth_of: Run | None = None

    def truth(self, run: Run) -> Run:
        """Decorator: state -> the right result, in float64 or better."""
        self.truth_of = run
        return run

    def contender(self, name: str, *, needs: Iterable[str] = (), yardstick: bool = False) -> Callable[[Run], Run]:
        """Decorator: state -> this contender's result."""

        def add(run: Run) -> Run:
            if name in self.contenders:
                raise ValueError(f"case {self.name!r} already has a contender {name!r}")
            self.contenders[name] = Contender(name, run, tuple(needs), yardstick)
            return run

        return add


REGISTRY: dict[str, Case] = {}


def case(
    name: str, *, group: str, sizes: Mapping[str, Any], rtol: float, floor: float = 0.0, by_row: bool = False
) -> Callable[[Callable[[Any], Any]], Case]:
    """Decorator: make a `Case` of a setup function and register it; its docstring's first line is the summary."""

    def register(setup: Callable[[Any], Any]) -> Case:
        if name in REGISTRY:
            raise ValueError(f"a case named {name!r} is already registered")
        summary = (setup.__doc__ or "").strip().partition("\n")[0]
        REGISTRY[name] = Case(name, group, dict(sizes), setup, rtol, floor, summary, by_row)
        return REGISTRY[name]

    return register


def discover() -> dict[str, Case]:
    """Import every module in `benchmarks/cases/` and return all registered cases by name."""
    import benchmarks.cases

    for module in sorted(pkgutil.iter_modules(benchmarks.cases.__path__), key=lambda module: module.name):
        importlib.import_module(f"benchmarks.cases.{module.name}")
    return dict(REGISTRY)

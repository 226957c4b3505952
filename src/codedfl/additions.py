"""What other packages add by entry points: commands, schemes, solvers, feature maps, data sets, latencies, times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from codedfl.errors import InvalidInput

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS = "codedfl.commands"
DATASETS = "codedfl.datasets"
FEATURES = "codedfl.features"
LATENCIES = "codedfl.latencies"
SCHEMES = "codedfl.schemes"
SOLVERS = "codedfl.solvers"
TIMINGS = "codedfl.timings"


def additions(group: str) -> dict[str, EntryPoint]:
    """What there is of a group, by name; nothing of it is imported yet."""
    from importlib.metadata import entry_points  # here: it takes 40 ms, and a device rarely gets here

    return {entry.name: entry for entry in entry_points(group=group)}


def load_addition(entry: EntryPoint, what: str, accept: Callable[[Any], Any] = lambda found: found) -> Any:
    """What an entry point names, as ``accept`` takes it; whatever goes wrong is reported in one line.

    A stranger's import may raise anything, and must not keep the others from working.
    """
    try:
        return accept(entry.load())
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInput(f"the {what} {entry.name} ({entry.value}) could not be loaded: {why}") from None

"""A bar for work that takes long."""

from __future__ import annotations

import math
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


class _TimeLeft(ProgressColumn):
    """The time that is left ("0:00:12 left"); nothing while it is unknown."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = task.time_remaining
        return Text("" if left is None else f"{timedelta(seconds=math.ceil(left))} left")


def progress_bar(console: Console) -> Progress:
    """With the time passed and the time left; nothing at all where the console is no terminal."""
    return Progress(
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        _TimeLeft(),
        TextColumn("{task.description}"),  # last: its length changes
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )

"""Statistics: what a device adds up over its rows. One file per statistic; analyses ask for their totals."""

from codedfl.statistics.cells import Cells
from codedfl.statistics.crosstable import Crosstable
from codedfl.statistics.gram import Gram
from codedfl.statistics.newton import Newton
from codedfl.statistics.products import Products
from codedfl.statistics.robust import Robust
from codedfl.statistics.score import Score
from codedfl.statistics.statistic import (
    STATISTICS,
    Ask,
    Statistic,
    contribution,
    register_statistic,
    statistic_of,
    words_of,
)

__all__ = [
    "STATISTICS",
    "Ask",
    "Cells",
    "Crosstable",
    "Gram",
    "Newton",
    "Products",
    "Robust",
    "Score",
    "Statistic",
    "contribution",
    "register_statistic",
    "statistic_of",
    "words_of",
]

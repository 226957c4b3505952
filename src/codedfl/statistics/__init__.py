"""Statistics: what a device adds up over its rows. One file per statistic; analyses ask for their totals."""

from codedfl.statistics.calibration import Calibration
from codedfl.statistics.cells import Cells
from codedfl.statistics.contingency import Contingency
from codedfl.statistics.crosstable import Crosstable
from codedfl.statistics.gram import Gram
from codedfl.statistics.histogram import Histogram
from codedfl.statistics.newton import Newton
from codedfl.statistics.products import Products
from codedfl.statistics.residuals import Residuals
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
from codedfl.statistics.survival import Ends, Survival

__all__ = [
    "STATISTICS",
    "Ask",
    "Calibration",
    "Cells",
    "Contingency",
    "Crosstable",
    "Ends",
    "Gram",
    "Histogram",
    "Newton",
    "Products",
    "Residuals",
    "Robust",
    "Score",
    "Statistic",
    "Survival",
    "contribution",
    "register_statistic",
    "statistic_of",
    "words_of",
]

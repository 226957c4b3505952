"""Statistics: what a device adds up over its rows. One file per statistic; analyses ask for their totals."""

from codedfl.statistics import (  # noqa: F401 - each makes its statistic known
    calibration,
    cells,
    contingency,
    crosstable,
    gram,
    histogram,
    newton,
    products,
    residuals,
    robust,
    score,
    survival,
)

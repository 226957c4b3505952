"""Results for people and machines: a folder of files, tables for the terminal, pictures, verdicts on one page.

Every number shown comes from the results; nothing is computed here but medians over seeds for the curves.
"""

from __future__ import annotations

from codedfl.report.beyond_page import beyond_headlines
from codedfl.report.canvas import Pictures
from codedfl.report.figures import accuracy_figure
from codedfl.report.files import write_beyond_report, write_report
from codedfl.report.html import headline, report_page
from codedfl.report.tables import comparison_table

__all__ = [
    "Pictures",
    "accuracy_figure",
    "beyond_headlines",
    "comparison_table",
    "headline",
    "report_page",
    "write_beyond_report",
    "write_report",
]

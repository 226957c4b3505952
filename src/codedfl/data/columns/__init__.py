"""The columns of a table: what the study file says of one is the object that reads, codes, clips and names it.

One class per kind, numbers, numbers made of others and categories, and the two kinds of a target.
"""

from codedfl.data.columns.category import CategoryColumn
from codedfl.data.columns.column import OTHER, BaseColumn, ColumnReport
from codedfl.data.columns.grid import GAP, MOST_STEPS, Grid, Units, no_step
from codedfl.data.columns.listed import Columns
from codedfl.data.columns.number import DerivedColumn, NumberColumn
from codedfl.data.columns.said import COLUMN_KEYS, Column, column_of, gap_codes
from codedfl.data.columns.target import ClassTarget, NumberTarget, Target
from codedfl.data.columns.values import as_levels, as_numbers, as_text, as_texts, gaps, without_codes

__all__ = [
    "COLUMN_KEYS",
    "GAP",
    "MOST_STEPS",
    "OTHER",
    "BaseColumn",
    "CategoryColumn",
    "ClassTarget",
    "Column",
    "ColumnReport",
    "Columns",
    "DerivedColumn",
    "Grid",
    "NumberColumn",
    "NumberTarget",
    "Target",
    "Units",
    "as_levels",
    "as_numbers",
    "as_text",
    "as_texts",
    "column_of",
    "gap_codes",
    "gaps",
    "no_step",
    "without_codes",
]

"""Analyses: generators that ask for totals of statistics and end in what they say."""

from codedfl.analyses.cells import CellCounts, merge_rare
from codedfl.analyses.inference import Inference, LeastSquaresFit
from codedfl.analyses.linear import LassoPath, LinearTotal
from codedfl.analyses.scoring import ClassScore, NumberScore
from codedfl.analyses.study_analysis import Answer, LinearFinding, StudyFindings, conduct, linear_total, refit

__all__ = [
    "Answer",
    "CellCounts",
    "ClassScore",
    "Inference",
    "LassoPath",
    "LeastSquaresFit",
    "LinearFinding",
    "LinearTotal",
    "NumberScore",
    "StudyFindings",
    "conduct",
    "linear_total",
    "merge_rare",
    "refit",
]

"""Analyses: generators that ask for totals of statistics and end in what they say."""

from codedfl.analyses.cells import CellCounts, merge_rare
from codedfl.analyses.inference import Inference
from codedfl.analyses.linear import LinearTotal
from codedfl.analyses.scoring import ClassScore, NumberScore
from codedfl.analyses.study_analysis import Answer, LinearFinding, StudyFindings, conduct, refit

__all__ = [
    "Answer",
    "CellCounts",
    "ClassScore",
    "Inference",
    "LinearFinding",
    "LinearTotal",
    "NumberScore",
    "StudyFindings",
    "conduct",
    "merge_rare",
    "refit",
]

"""Analyses: generators that ask for totals of statistics and end in what they say."""

from codedfl.analyses.analysis import ANALYSES, Finding, NotFound, Totals, register_analysis
from codedfl.analyses.cells import CellCounts, merge_rare
from codedfl.analyses.glm import GlmFinding
from codedfl.analyses.inference import Inference, LeastSquaresFit
from codedfl.analyses.linear import LassoPath, LinearTotal
from codedfl.analyses.residuals import ResidualsFinding
from codedfl.analyses.robust import InferenceFinding
from codedfl.analyses.scoring import ClassScore, NumberScore
from codedfl.analyses.study_analysis import Answer, LinearFinding, StudyFindings, conduct, refit
from codedfl.analyses.survival import SurvivalFinding
from codedfl.analyses.table import fit_table
from codedfl.analyses.table_one import TableOneFinding

__all__ = [
    "ANALYSES",
    "Answer",
    "CellCounts",
    "ClassScore",
    "Finding",
    "GlmFinding",
    "Inference",
    "InferenceFinding",
    "LassoPath",
    "LeastSquaresFit",
    "LinearFinding",
    "LinearTotal",
    "NotFound",
    "NumberScore",
    "ResidualsFinding",
    "StudyFindings",
    "SurvivalFinding",
    "TableOneFinding",
    "Totals",
    "conduct",
    "fit_table",
    "merge_rare",
    "refit",
    "register_analysis",
]

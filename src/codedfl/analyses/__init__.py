"""Analyses: generators that ask for totals of statistics and end in what they say.

Each name is imported when it is first used: a device plans runs (``study_plan``) and loads no analysis.
"""

from typing import TYPE_CHECKING

from codedfl.on_demand import names_on_demand

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

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "codedfl.analyses.analysis": ["ANALYSES", "Finding", "NotFound", "Totals", "register_analysis"],
            "codedfl.analyses.cells": ["CellCounts", "merge_rare"],
            "codedfl.analyses.glm": ["GlmFinding"],
            "codedfl.analyses.inference": ["Inference", "LeastSquaresFit"],
            "codedfl.analyses.linear": ["LassoPath", "LinearTotal"],
            "codedfl.analyses.residuals": ["ResidualsFinding"],
            "codedfl.analyses.robust": ["InferenceFinding"],
            "codedfl.analyses.scoring": ["ClassScore", "NumberScore"],
            "codedfl.analyses.study_analysis": ["Answer", "LinearFinding", "StudyFindings", "conduct", "refit"],
            "codedfl.analyses.survival": ["SurvivalFinding"],
            "codedfl.analyses.table": ["fit_table"],
            "codedfl.analyses.table_one": ["TableOneFinding"],
        },
    )

"""The paper's own system to the letter: Q<k,f>, Tandon's code, and both phases in that arithmetic. For study only."""

from __future__ import annotations

from codedfl_lab.paper.fixed_point import Integers, PaperFixedPoint
from codedfl_lab.paper.system import PaperSystem
from codedfl_lab.paper.tandon_code import TandonCode

__all__ = ["Integers", "PaperFixedPoint", "PaperSystem", "TandonCode"]

"""A formula, as statisticians type it, expanded on the author's machine into columns that the study lists.

The parser of the package formulaic reads it (``codedfl[formula]``); its evaluator, which runs Python and learns levels
and knots from rows, is never called, and a device never loads it. What would learn from rows, and every name that is
not listed here, is refused. A constant is always in the model.
"""

from codedfl.authoring.formula.drafting import draft_with_formula, formula_objection, kind_of_formula, names_in
from codedfl.authoring.formula.parser import Formula, Response, parse_formula
from codedfl.authoring.formula.terms import expand

__all__ = [
    "Formula",
    "Response",
    "draft_with_formula",
    "expand",
    "formula_objection",
    "kind_of_formula",
    "names_in",
    "parse_formula",
]

"""Which models of a study have one term each of another, all else alike: its crude estimates."""

from __future__ import annotations

from collections.abc import Sequence

from codedfl.contract.models import StudyModel, SubModel
from codedfl.contract.study import Study, factors_of


def terms_of(study: Study, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The columns of each term: a column with all that is made of it alone.

    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age, crp = (NumberColumn(name, (0.0, 100.0), 1.0) for name in ("age", "crp"))
    >>> terms_of(Study("stay", (age, crp), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4), ("crp", "age"))
    {'age': ('age',), 'crp': ('crp',)}
    """
    found = dict[str, tuple[str, ...]]()
    for one in study.columns:
        made_of = {factor.column for factor in factors_of(one)} or {one.name}
        if one.name in columns and len(made_of) == 1:
            (base,) = made_of
            found[base] = (*found.get(base, ()), one.name)
    return found


def crude_models(study: Study) -> dict[str, list[str]]:
    """By the name of a model, "" for the study's own: the models that have one term of it each, if every term has one.

    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age, crp = (NumberColumn(name, (0.0, 100.0), 1.0) for name in ("age", "crp"))
    >>> models = tuple(SubModel(f"{name} alone", (name,), inference=True) for name in ("age", "crp"))
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> crude_models(Study("stay", (age, crp), days, 1000, 300, 4, inference=True, models=models))
    {'': ['age alone', 'crp alone']}
    """
    own = SubModel("", tuple(one.name for one in study.columns if one.width), inference=True)
    found = dict[str, list[str]]()
    for whole in (*((own,) if study.inference else ()), *study.models):
        terms = terms_of(study, whole.columns)
        alike = {one.columns: one.name for one in study.models if _said(one) == _said(whole)}
        if len(terms) > 1 and alike.keys() >= set(terms.values()):
            found[whole.name] = [alike[one] for one in terms.values()]
    return found


def _said(model: StudyModel) -> dict[str, object]:
    """All but which rows of the file it is, and of which columns."""
    return {key: value for key, value in model.to_dict().items() if key not in ("name", "columns")}

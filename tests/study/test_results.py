"""results.json: every field is in it, under its own name, as plain JSON."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from typing import Any

from codedfl_lab.comparing.results import (
    NOT_WRITTEN,
    SCHEMA,
    AtSize,
    Claim,
    ExposureResult,
    Gain,
    PaperValue,
    Preparation,
    Racer,
    Results,
    Timed,
)
from made_up_results import entry, made_up_results, made_up_timed

GOAL = Racer(
    *("mnist", "coded-keys", "cg"),
    columns=(
        Timed("call", "coded-keys, α = 25", 70.0, 121.0, 90.0, 150.0, 5.5, 100.0, "met, interval reaches below"),
        Timed("zero"),
    ),
)
STEP = Preparation("role-keys, z = 1", 25, "enrol", "slow", 2.5)


def everything() -> Results:
    """Every kind of row, with every optional field filled somewhere."""
    coded = entry(0.95, 70.0, alpha=23, gain=Gain(5.0, 8.0), exposure=ExposureResult(0, 23, 25), gram_directions=100)
    collusion = replace(coded, scheme="role-keys", parameters={"z": 1})
    failed = entry(0.95, None, delta=0.1, reason="parity data are singular")
    return made_up_results(
        [entry(0.95, 8000.0), coded, collusion, failed],
        n_samples=60_000,
        paper=PaperValue(6.6, 23),
        shuffled=(coded,),
        from_zero=(coded,),
        claims=(Claim("c", "mnist", None, "not judged", "missing"),),
        goals=(GOAL,),
        preparations=(STEP,),
        scaling=(AtSize("mnist", 50, "multicast", True, made_up_timed(), 2.0, True),),
        notes=("a note",),
        quick=True,
    )


def same(written: Any, value: Any) -> bool:
    """Whether JSON holds this value: every field of every record by its name, parameters beside the others."""
    if is_dataclass(value):
        own = {one.name: getattr(value, one.name) for one in fields(value) if one.metadata != NOT_WRITTEN}
        parameters = own.pop("parameters", None)
        own |= {} if parameters is None else {"z": None, **parameters}
        return set(written) - {"schema"} == set(own) and all(same(written[key], own[key]) for key in own)
    if isinstance(value, tuple):
        return len(written) == len(value) and all(map(same, written, value))
    return bool(written == value) and type(written) is type(value)


def test_every_field_is_written_as_plain_json() -> None:
    assert same(json.loads(everything().json_bytes()), everything())


def test_parameters_stand_beside_the_other_fields_and_z_on_every_row() -> None:
    rows = json.loads(everything().json_bytes())["schemes"]
    assert [(row.get("alpha"), row.get("delta"), row["z"]) for row in rows] == [
        (None, None, None),
        (23, None, None),
        (None, None, 1),
        (None, 0.1, None),
    ]
    assert [row.z for row in everything().schemes] == [None, None, 1, None]
    assert everything().to_json()["schema"] == SCHEMA

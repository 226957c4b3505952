"""A study with a map, a model, a statistic and an analysis that are each one new file, by an engine that is another.

``python new_study.py FOLDER``: the files of FOLDER are put where ours are; nothing of ours is touched. It is a program
of its own, since what is made known in a process stays known. It prints what it found as JSON.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from codedfl.analyses.driving import drive
from codedfl.contract.policy import Policy
from codedfl.contract.toml_file import parse_study
from codedfl.data.model import TrainedModel
from codedfl.data.tables import as_raw_table
from codedfl.run.rehearsal import Rehearsed, dealt_out, made_up_roster

PLACES = {
    "features": "codedfl.data.features",
    "models": "codedfl.contract.models",
    "statistics": "codedfl.statistics",
    "analyses": "codedfl.analyses",
    "engines": "codedfl.engines",
}
HEAD = """
format = "codedfl-study-2"
name = "new"
[[column]]
name = "x"
kind = "number"
range = [0, 100]
step = 1
[target]
name = "y"
range = [0, 63]
step = 1
[protection]
least_participants = 3
max_rows = 2000
max_rows_per_device = 2000
[result]
held_out = 0.0
"""
TRAINED = HEAD + '[features]\nkind = "powers"\ndegree = {}\n[training]\nepochs = 20\nregularisation = 1e-8\n'
COUNTED = HEAD + '[[model]]\nkind = "median"\nname = "middle"\ncolumns = ["x"]\n'


def main(folder: Path) -> None:
    for place, package in PLACES.items():
        path = import_module(package).__path__
        path.append(str(folder / place))
    from codedfl.engines.backwards import Backwards  # type: ignore[import-not-found]

    rng = np.random.default_rng(0)
    x = rng.integers(0, 101, 600)
    y = np.round(60 * (x / 100 - 0.5) ** 3 * 4 + 30 + rng.normal(0, 1, 600)).clip(0, 63)
    tables = dealt_out(as_raw_table({"x": x, "y": y}, "t.csv"), 4, rng)

    def conducted(text: str):
        study = parse_study(text)
        ready = Rehearsed(study, made_up_roster(study, tables))
        assert ready.approve(tables, Policy()) == {}
        engine = Backwards({name: one.reply for name, one in ready.devices().items()})
        return drive(ready.study, ready.totals(engine).answer)

    model = conducted(TRAINED.format(3)).model
    assert isinstance(model, TrainedModel)
    (median,) = conducted(COUNTED).models
    digests = [parse_study(TRAINED.format(degree)).digest().hex() for degree in (2, 3)]
    parts = np.bincount(y.astype(int) * 8 // 64, minlength=8)
    design = np.vander(x / 100, 4)
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    found = model.predict(as_raw_table({"x": x}, "t.csv"))
    told = {"digests": digests, "off": float(np.abs(found - fitted).max()), "median": median.to_dict()}
    print(json.dumps({**told, "counts": median.counts, "parts": parts.tolist(), "middle": float(np.median(y))}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

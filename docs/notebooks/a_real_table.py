# %% [markdown]
# # A real table, from start to publication
#
# 442 patients with diabetes, ten measurements each and how far the disease had gone a year later (Efron, Hastie,
# Johnstone and Tibshirani, *Least Angle Regression*, 2004; part of scikit-learn). We deal them out to six clinics,
# agree on a study, rehearse it, and end with the table that goes into the paper. No clinic shows a row to anybody.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from codedfl import load_study
from codedfl.analyses.study_analysis import refit
from codedfl.authoring.check import check_table
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.study_text import study_text
from codedfl.contract.merging import merged_study, recoded
from codedfl.contract.policy import Policy
from codedfl.contract.study import SubModel
from codedfl.contract.words import explain
from codedfl.data.tables import read_file
from codedfl.run.rehearsal import Rehearsed, made_up_roster, read_folder, rehearse
from codedfl.statistics.statistic import words_of
from codedfl_lab import Fleet
from codedfl_lab.costs.timing import fleet_timing

folder = Path(tempfile.mkdtemp())
found = load_diabetes(scaled=False)
names = ["age", "sex", "bmi", "pressure", "tc", "ldl", "hdl", "tch", "ltg", "glucose"]
sex = np.where(found.data[:, 1] > 1.5, "2", "1")
deal = np.array_split(np.random.default_rng(0).permutation(len(found.target)), 6)
(folder / "tables").mkdir()
for clinic, rows in enumerate(deal, start=1):
    lines = [",".join([*names, "progression"])]
    for row in rows:
        cells = [f"{value:g}" for value in found.data[row]]
        cells[1] = "f" if sex[row] == "1" else "m"
        lines.append(",".join([*cells, f"{found.target[row]:g}"]))
    (folder / "tables" / f"clinic-{clinic}.csv").write_text("\n".join(lines) + "\n")
print([len(rows) for rows in deal], "rows per clinic")

# %% [markdown]
# ## Agree
#
# `codedfl study new` drafts a study from one clinic's table, with a comment on every choice. People read it and change
# it: here the ranges are widened to what is plausible for a patient, not what one clinic happens to have, and inference
# is asked for. Steps are the units of record: whole years, 0.1 of a body mass index. Held-out rows have a total of
# their own, so a clinic holds out none, or at least twice as many as there are columns: of 74 rows, two in five.

# %%
sample = read_file(folder / "tables" / "clinic-1.csv")
draft = study_text(draft_of_table(sample, "progression", "diabetes", (), 6))
text = "\n".join(line for line in draft.splitlines() if not line.startswith(("range = ", "step = ")))
for name, (low, high, step) in {
    "age": (0, 110, 1), "bmi": (10, 60, 0.1), "pressure": (30, 200, 0.01), "tc": (50, 400, 1), "ldl": (0, 350, 0.2),
    "hdl": (0, 150, 0.5), "tch": (0, 15, 0.01), "ltg": (2, 8, 0.0001), "glucose": (30, 300, 1),
    "progression": (0, 400, 1),
}.items():
    text = text.replace(f'name = "{name}"', f'name = "{name}"\nrange = [{low}, {high}]\nstep = {step}')
text = text.replace("inference = false", "inference = true").replace("held_out = 0.2", "held_out = 0.4")
(folder / "study.toml").write_text(text + "\n")
study = load_study(folder / "study.toml")
print(study.name, study.digest().hex()[:16], "inference:", study.inference)

# %%
for section in explain(study, words=words_of(study))[:3]:
    print(section.question)
    for answer in section.answers:
        print("  -", answer)

# %% [markdown]
# ## Check, at home
#
# Each clinic looks at its own table before it agrees: what would be clipped, missing or unknown. Nothing leaves the
# machine.

# %%
tables = read_folder(folder / "tables")
for name, table in tables.items():
    checked = check_table(study, table)
    clipped = sum(column.n_clipped for column in checked.columns)
    print(f"{name}: {checked.rows} rows, {clipped} values would be clipped, usable: {checked.usable}")

# %% [markdown]
# ## Rehearse
#
# Every clinic judges the study as it would by itself; then the real protocol runs on these tables, in virtual time on a
# fleet like ours. The federation does the same. It trains on other rows: each clinic draws which ones it holds out by a
# key of its own. On the same rows the findings are the same bit for bit.

# %%
ready = Rehearsed(study, made_up_roster(study, tables))
refusals = ready.approve(tables, Policy())
print(f"in pods of {[len(pod) for pod in ready.roster.pods]}; who would refuse: {refusals}")
done = rehearse(ready, np.random.default_rng(0), fleet_timing(Fleet.load("paper")))
findings = done.findings
print(f"{findings.rows} rows, R^2 on held-out rows: {findings.score.r_squared if findings.score else findings.no_score}")
print(f"{1000 * done.seconds:.1f} ms on the paper's devices")

# %% [markdown]
# ## The table for the paper
#
# Ordinary least squares with standard errors, from the exact total alone.

# %%
inference = findings.inference
print(inference.summary())

# %%
shown = [i for i, name in enumerate(inference.names) if i > 0]
figure, axes = plt.subplots(figsize=(7, 3.6))
t = inference.t[shown]
axes.barh([inference.names[i] for i in shown], t, color=np.where(np.abs(t) > 1.96, "#0072B2", "#A9B3BD"))
axes.axvline(0, color="black", linewidth=0.8)
axes.set_xlabel("t value; blue: p < 0.05")
plt.show()

# %% [markdown]
# ## Is it right?
#
# Here we can look, because here we have all rows: the same regression by NumPy on the pooled training rows.

# %%
rows = [one.part(held_out=False) for one in ready.snapshots.values()]
final = merged_study(study, findings.merged)
X = np.concatenate([final.matrix(recoded(study, one.codes, findings.merged)) for one in rows])
y = np.concatenate([study.target.values(one.target) for one in rows])
design = np.column_stack([np.ones(len(X)), X])
theirs = np.linalg.lstsq(design, y, rcond=None)[0]
furthest = np.abs((theirs - inference.coefficients) / inference.standard_errors).max()
print(f"furthest from NumPy on the pooled rows: {furthest:.1e} standard errors")

# %% [markdown]
# ## One more model
#
# A referee asks for the model without blood values. The total is there: no clinic is asked for anything.

# %%
wanted = SubModel("no blood values", ("age", "sex", "bmi", "pressure"), inference=True)
smaller = refit(study, findings.total, findings.merged, wanted)
print(smaller.inference.summary())

# %% [markdown]
# What to write: *Data of six clinics were analysed by ordinary least squares with codedfl; no rows left a clinic. The
# coordinating server learnt the total of X'X and X'y over all clinics and, with fewer than two colluding clinics, nothing
# about a single one.* The study file, whose digest is above, belongs into the supplement.

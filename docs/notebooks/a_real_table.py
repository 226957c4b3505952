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

from codedfl import Conditions, Fleet, RoleKeys, load_study
from codedfl.consent.words import explain
from codedfl.data.studies.check import check_table
from codedfl.data.studies.draft import draft_study
from codedfl.data.tables import read_file
from codedfl.run.inference import infer
from codedfl.run.study_rehearsal import read_folder, rehearse_study

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
print([len(rows) for rows in deal], "rows a clinic")

# %% [markdown]
# ## Agree
#
# `codedfl study new` drafts a study from one clinic's table, with a comment on every choice. People read it and change
# it: here the ranges are widened to what is plausible for a patient, not what one clinic happens to have, and inference
# is asked for. For that the server learns the whole total of X'X, and the study says so.

# %%
sample = read_file(folder / "tables" / "clinic-1.csv")
draft = draft_study(sample, "progression", "diabetes", (), 6)
text = "\n".join(line for line in draft.splitlines() if not line.startswith("range = "))
for name, ends in {
    "age": (0, 110), "bmi": (10, 60), "pressure": (30, 200), "tc": (50, 400), "ldl": (0, 350), "hdl": (0, 150),
    "tch": (0, 15), "ltg": (2, 8), "glucose": (30, 300), "progression": (0, 400),
}.items():
    text = text.replace(f'name = "{name}"', f'name = "{name}"\nrange = [{ends[0]}, {ends[1]}]')
text = text.replace("inference = false", "inference = true")
(folder / "study.toml").write_text(text + "\n")
study = load_study(folder / "study.toml")
print(study.name, study.digest().hex()[:16], "inference:", study.inference)

# %%
fleet = Fleet.load("paper").scaled_to(6)
for section in explain(study, fleet)[:2]:
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
# The real protocol on these tables, in virtual time on a fleet like ours: the model is the one the federation will get,
# bit for bit.

# %%
done = rehearse_study(study, tables, RoleKeys(1), Conditions(fleet), np.random.default_rng(0))
print(f"R^2 on {done.score.rows} held-out rows: {done.score.r_squared:.3f}")
print(f"{done.trace.epochs[-1]} epochs, {1000 * done.trace.seconds[-1]:.1f} ms on the paper's devices")

# %% [markdown]
# ## The table for the paper
#
# Ordinary least squares with standard errors, from the exact total alone.

# %%
inference = infer(done.problem)
print(inference.summary())

# %%
shown = [i for i, name in enumerate(inference.names) if i > 0]
figure, axes = plt.subplots(figsize=(7, 3.6))
t = inference.t_values[shown]
axes.barh([inference.names[i] for i in shown], t, color=np.where(np.abs(t) > 1.96, "#0072B2", "#A9B3BD"))
axes.axvline(0, color="black", linewidth=0.8)
axes.set_xlabel("t value; blue: p < 0.05")
plt.show()

# %% [markdown]
# ## Is it right?
#
# Here we can look, because here we have all rows: the same regression by NumPy on the pooled training rows.

# %%
problem = done.problem
X = problem.X.astype(float)
theirs = np.linalg.lstsq(X, problem.Y.astype(float), rcond=None)[0].ravel()
residuals = problem.Y.ravel() - X @ theirs
pooled = 1 - float(residuals @ residuals) / float(((problem.Y - problem.Y.mean()) ** 2).sum())
print(f"R^2 of the pooled rows {pooled:.6f}, of the federation {inference.r_squared:.6f}")

# %% [markdown]
# What to write: *Data of six clinics were analysed by ordinary least squares with codedfl; no rows left a clinic. The
# coordinating server learnt the total of X'X and X'y over all clinics and, with fewer than two colluding clinics, nothing
# about a single one.* The study file, whose digest is above, belongs into the supplement.

# %% [markdown]
# # The paper in pictures
#
# Why federated learning waits, what a gradient code does about it, and what it costs. Everything here is virtual time on
# the paper's fleet: 25 devices, from 25 down to 1.25 million multiply-adds a second.

# %%
import matplotlib.pyplot as plt
import numpy as np

from codedfl_lab import CodedKeys, CodedPadded, RoleKeys
from codedfl_lab import Conditions, Conventional, Fleet, FleetLatency
from codedfl_lab.comparing.paper import FEATURES
from codedfl_lab.costs.times import Draws, WorkShape, epoch_end_times

fleet = Fleet.load("paper")
rng = np.random.default_rng(0)
print(fleet)

# %% [markdown]
# ## Straggling
#
# A device's time has two parts: work divided by its speed, and a random delay. One product of a 2000 x 2000 matrix with
# ten columns, a thousand times on each device:

# %%
macs = FEATURES * FEATURES * 10
times = FleetLatency(fleet).compute_times(macs, 1000, rng)
figure, axes = plt.subplots(figsize=(8, 3.2))
axes.boxplot(times, whis=(5, 95), showfliers=False)
axes.set_yscale("log")
axes.set_xlabel("device")
axes.set_ylabel("seconds for one product")
axes.set_xticks([1, 5, 10, 15, 20, 25], ["1", "5", "10", "15", "20", "25"])
plt.show()
print(f"the slowest device takes {np.median(times[:, -1]) / np.median(times[:, 0]):.0f} times as long as the fastest")

# %% [markdown]
# Whoever waits for everybody waits for the slowest of 25 draws. Whoever needs the first k answers waits for the k-th:

# %%
in_order = np.sort(times, axis=1).mean(axis=0)
figure, axes = plt.subplots(figsize=(8, 3.2))
axes.bar(range(1, 26), in_order, color="#0072B2")
axes.set_yscale("log")
axes.set_xlabel("answers waited for")
axes.set_ylabel("mean seconds")
plt.show()
print(f"waiting for 3 instead of 25: {in_order[-1] / in_order[2]:.0f} times shorter")

# %% [markdown]
# ## Coding
#
# A gradient code lets any D - alpha + 1 answers give the exact total, because alpha devices can answer for each one. The
# price is a sharing phase before training. Speed against alpha, for 300 epochs of gradient descent:

# %%
shape = WorkShape(FEATURES, 10, np.full(25, 2400))
at = Conditions(fleet)
alphas = range(1, 26)


def mean_end(scheme, epochs=300, draws=40):
    start, ends = epoch_end_times(scheme, shape, at, epochs, Draws(draws, np.random.default_rng(1)))
    return float(start.mean()), float(ends[:, -1].mean())


figure, axes = plt.subplots(figsize=(8, 3.8))
for kind, colour in ((CodedPadded, "#D55E00"), (CodedKeys, "#0072B2")):
    found = [mean_end(kind(alpha)) for alpha in alphas]
    axes.plot(alphas, [end for _, end in found], color=colour, label=kind.name)
    axes.plot(alphas, [start for start, _ in found], color=colour, linestyle=":", label=f"{kind.name}, sharing alone")
axes.axhline(mean_end(Conventional())[1], color="black", label="conventional FL")
axes.axhline(mean_end(RoleKeys(1))[1], color="#CC79A7", label="role-keys, z = 1")
axes.set_yscale("log")
axes.set_xlabel("alpha")
axes.set_ylabel("seconds for 300 epochs")
axes.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# ## What the solver does to that
#
# With few epochs the sharing phase is all that counts. Small multiples: the same curves for 300, 30 and 6 epochs.

# %%
figure, panels = plt.subplots(1, 3, figsize=(9, 3), sharey=True)
for axes, epochs in zip(panels, (300, 30, 6)):
    for kind, colour in ((CodedPadded, "#D55E00"), (CodedKeys, "#0072B2")):
        axes.plot(alphas, [mean_end(kind(alpha), epochs, 20)[1] for alpha in alphas], color=colour, label=kind.name)
    axes.axhline(mean_end(RoleKeys(1), epochs, 20)[1], color="#CC79A7", label="role-keys, z = 1")
    axes.set_yscale("log")
    axes.set_title(f"{epochs} epochs", fontsize=10)
    axes.set_xlabel("alpha")
panels[0].set_ylabel("seconds")
panels[0].legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# With descent the best alpha is large. With a solver that needs few epochs, sharing 12 MB with everybody (coded-padded)
# does not pay any more, sharing 32-byte keys does, and role keys need neither a large alpha nor trust in a device.

# %% [markdown]
# # Privacy, hands on
#
# Be the curious server. First of conventional federated learning, then of role keys; then bring colluders.

# %%
import matplotlib.pyplot as plt
import msgspec
import numpy as np

from codedfl.run.sums_in_process import MadeRows, train_in_process
from codedfl.solve.krylov import BlockKrylov
from codedfl.sum.goals import KeptUpload
from codedfl.sum.store import Store
from codedfl_lab import CodedKeys, CodedPadded, Conventional, RoleKeys, datasets, make_problem

data = datasets.load("digits")
problem = make_problem(data, n_devices=10, partition_name="sorted", features="linear")
print(problem)

# %% [markdown]
# ## Conventional FL: the gradient is the data
#
# At Theta = 0 the gradient of a device is -X'Y: for each class the sum of its rows. The server divides and looks. Here
# rows are sorted by label, so each device has one or two digits; its largest column is drawn.

# %%
def gradient_of(device):
    """What the device sends in the first epoch of conventional FL."""
    rows = problem.rows_of(device)
    theta = np.zeros((problem.n_features, problem.n_outputs))
    return problem.X[rows].T @ (problem.X[rows] @ theta - problem.Y[rows])


def show(pictures, titles):
    figure, panels = plt.subplots(1, len(pictures), figsize=(9, 1.4), squeeze=False)
    for axes, picture, title in zip(panels[0], pictures, titles):
        axes.imshow(picture, cmap="gray_r")
        axes.set_title(title, fontsize=8)
        axes.axis("off")
    plt.show()


gradients = [gradient_of(device) for device in range(10)]
largest = [int(np.abs(gradient).sum(axis=0).argmax()) for gradient in gradients]
show([-g[:64, k].reshape(8, 8) for g, k in zip(gradients, largest)], [f"device {i}" for i in range(10)])

# %% [markdown]
# That is what a server of conventional FL has after one epoch: the mean image of every digit that a device has.
#
# ## Role keys: the upload is noise
#
# The same data under role keys. Every device adds z + 1 pads to its sums, one for each role; the server gets the padded
# sums. We listen to what it receives from one device, byte for byte.

# %%
device, heard = 3, {}
keep = Store.put


def listening(store, key, value):
    """What the server keeps of every upload, as it came in."""
    if key[0] == "upload":
        heard[key[-1]] = msgspec.msgpack.decode(value, type=KeptUpload).numbers
    keep(store, key, value)


places = {name: problem.rows_of(i) for i, name in enumerate(problem.device_names)}
of_devices = {name: (problem.X[rows], problem.Y[rows]) for name, rows in places.items()}
rows = MadeRows(problem.recipe, of_devices, problem.clipped)
Store.put = listening
theta = train_in_process(rows, BlockKrylov(20, 1e-4), rows.scales(48), colluders=1).theta
Store.put = keep
upload = heard[problem.device_names[device]]
print(f"the upload of {problem.device_names[device]} has {len(upload)} bytes, six for each number")
counts = np.bincount(np.frombuffer(upload, dtype=np.uint8)[::6], minlength=256)
show([np.frombuffer(upload[k * 64 : (k + 1) * 64], dtype=np.uint8).reshape(8, 8) for k in range(10)], [""] * 10)

# %% [markdown]
# The low bytes of the numbers are flat, as those of random ones: nothing about the digits is in them.

# %%
figure, axes = plt.subplots(figsize=(7, 2.2))
axes.bar(range(256), counts, width=1.0, color="#0072B2")
axes.set_xlabel("value of a low byte")
axes.set_ylabel("times seen")
plt.show()
expected = counts.sum() / 256
chi = float(((counts - expected) ** 2 / expected).sum())
print(f"chi-squared over 255 degrees of freedom: {chi:.0f}")

# %% [markdown]
# And yet the model is there, exactly: it is bit for bit what one machine with all rows computes.

# %%
print(f"accuracy on the test rows: {problem.score(theta):.3f}")

# %% [markdown]
# ## Bring colluders
#
# How many other devices does the server learn, alone and with the worst one or two devices helping it? This is computed
# by linear algebra on what they hold (`codedfl lab privacy` prints the same).

# %%
schemes = [Conventional(), CodedPadded(8), CodedKeys(8), RoleKeys(1), RoleKeys(2)]
exposed = [one.exposure(10) for one in schemes]
bars = {
    "the server alone": [one.server_alone for one in exposed],
    "with one device": [one.one_colluder for one in exposed],
    "with two": [one.two_colluders for one in exposed],
}
for one, *values in zip(schemes, *bars.values(), strict=True):
    print(f"{one.label:20} alone {values[0]}, with one {values[1]}, with two {values[2]}")
figure, axes = plt.subplots(figsize=(8, 3))
for place, (colour, who) in enumerate(zip(("#1b1f24", "#E69F00", "#D55E00"), bars, strict=True)):
    axes.bar(np.arange(len(schemes)) + 0.27 * (place - 1), bars[who], width=0.25, color=colour, label=who)
axes.set_xticks(range(len(schemes)), [one.label for one in schemes], fontsize=8)
axes.set_ylabel("other devices exposed")
axes.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# Role keys with z = 1 hold against any one device and fall to two of different roles; z = 2 holds against two. No scheme
# hides what the exact total itself says: with three devices, two of them know the third's sums.

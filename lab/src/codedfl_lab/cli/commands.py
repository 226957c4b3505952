"""The laboratory's commands as entry points name them. Nothing is loaded here but their lines in the help."""

from codedfl.cli.listed import Listed

_PANEL = "Laboratory"

COMPARE = Listed(
    "compare",
    "Compare schemes: who reaches a target first on this fleet.",
    "codedfl_lab.cli.compare:compare_schemes",
    _PANEL,
)
DEMO = Listed(
    "demo",
    "Run the paper's protocol and ours once on this machine, and compare the schemes.",
    "codedfl_lab.cli.demo:run_demo",
    _PANEL,
)
PLAN = Listed(
    "plan",
    "Search schemes, alpha, groups and solvers for the fastest way to a target.",
    "codedfl_lab.cli.plan:make_plan",
    _PANEL,
)
TRAIN = Listed("train", "Train a model with the coded protocol and save it.", "codedfl_lab.cli.train:train", _PANEL)
REPRODUCE = Listed(
    "reproduce",
    "Reproduce the paper's Figures 1a and 1b, its headline numbers and its claims; then go beyond them.",
    "codedfl_lab.cli.reproduce:reproduce_paper",
    _PANEL,
)
FLEET = Listed("fleet", "Look at a fleet: a mix of devices and their links.", "codedfl_lab.cli.fleet:app", _PANEL)
DATA = Listed(
    "data",
    "List and fetch the data sets that have a name; export encoders for pictures and texts.",
    "codedfl_lab.cli.data:app",
    _PANEL,
)
PRIVACY = Listed(
    "privacy",
    "Say what each party sees under a scheme, what follows from it, and what a collusion adds.",
    "codedfl_lab.cli.privacy:show_privacy",
    _PANEL,
)

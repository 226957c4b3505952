"""The laboratory's commands as entry points name them. Nothing is loaded here but their lines in the help."""

from codedfl.cli.listed import ListedCommand

COMPARE = ListedCommand(
    "compare",
    "Compare schemes: which reaches a score first on this fleet.",
    "codedfl_lab.cli.compare:compare_schemes",
)
DEMO = ListedCommand(
    "demo",
    "Run the paper's protocol and ours once on this machine, and compare the schemes.",
    "codedfl_lab.cli.demo:run_demo",
)
PLAN = ListedCommand(
    "plan",
    "Search schemes, alpha, groups and solvers for the fastest way to a score.",
    "codedfl_lab.cli.plan:make_plan",
)
TRAIN = ListedCommand("train", "Train a model with the coded protocol and save it.", "codedfl_lab.cli.train:train")
REPRODUCE = ListedCommand(
    "reproduce",
    "Reproduce the paper's Figures 1a and 1b, its headline numbers and its claims; then go beyond them.",
    "codedfl_lab.cli.reproduce:reproduce_paper",
)
FLEET = ListedCommand(
    "fleet",
    "Look at a fleet: a mix of devices and their links.",
    commands=(
        ListedCommand(
            "show",
            "Show the classes of devices, and the seconds an epoch takes on average.",
            "codedfl_lab.cli.fleet:show",
        ),
    ),
)
DATA = ListedCommand(
    "data",
    "List and fetch the data sets that have a name; export encoders for pictures and texts.",
    commands=(
        ListedCommand(
            "list",
            "Show the data sets that have a name, and whether their files are on this machine.",
            "codedfl_lab.cli.data:list_data",
        ),
        ListedCommand(
            "fetch",
            "Make sure the files of a data set are on this machine, and check their hashes.",
            "codedfl_lab.cli.data:fetch",
        ),
        ListedCommand(
            "encoder",
            "Export a pretrained network to the files that codedfl site encode takes; without NAME, list all.",
            "codedfl_lab.cli.data:encoder",
        ),
    ),
)
PRIVACY = ListedCommand(
    "privacy",
    "Say what each party sees under a scheme, what follows from it, and what a collusion adds.",
    "codedfl_lab.cli.privacy:show_privacy",
)

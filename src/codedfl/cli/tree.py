"""All commands of the product with their lines in the help; each is loaded when it is run."""

from codedfl.cli.listed import ListedCommand

LAB = "lab"


def _group(name: str, summary: str, **commands: tuple[str, str]) -> ListedCommand:
    """Its commands by name: where the function is (module of this folder, function), and the line of the help."""
    listed = (ListedCommand(one.replace("_", "-"), line, f"codedfl.cli.{at}") for one, (at, line) in commands.items())
    return ListedCommand(name, summary, commands=tuple(listed))


TREE = (
    _group(
        "study",
        "Write, check and rehearse studies; use their results and models.",
        describe=(
            "study:describe",
            "Draft a first study that only describes: Table 1 over all devices, on wide public bins.",
        ),
        new=("study:new", "Draft a study file from Table 1 or from a sample, with a comment on every choice."),
        check=("study:check", "Say what of a table would be clipped, rounded, missing or unknown."),
        show=(
            "study:show",
            "Say in plain words and numbers what leaves a machine, who sees what, and what is not protected.",
        ),
        kit=(
            "study_kit:make_kits",
            "Make of a study and the requests of all sites one kit for each: a file of public parts.",
        ),
        rehearse=("study_rehearsal:rehearse_study", "Run a study on tables of this machine, as a dry run."),
        report=(
            "study_report:report_study",
            "Make the page of a result again, with figures as SVG, PDF and PNG and tables as CSV, HTML and LaTeX.",
        ),
        release=(
            "study_release:release_study",
            "Check a result by the rules of output checkers, and write what may be published into a folder of its own.",
        ),
        refit=(
            "study_refit:refit_study",
            "Make another linear model of a study's sum: another penalty, fewer columns, tests, a lasso.",
        ),
        leave=(
            "study_leave:leave_study",
            "Take whole parts out of a kept sum, and make the linear model of the others.",
        ),
        heterogeneity=(
            "study_heterogeneity:study_heterogeneity",
            "Compare the coefficients of two results or more: Cochran's Q, I^2, tau^2 and pooled estimates.",
        ),
        predict=("predict:predict", "Predict the label of every row, as a CSV with one prediction per row."),
        evaluate=("predict:evaluate", "Score a model on labelled rows, class by class."),
    ),
    _group(
        "roster",
        "Make and read rosters: devices, their keys and their disclosure groups.",
        new=("roster:new", "Divide devices into disclosure groups, as many as there can be."),
        add=("roster:add", "Add newcomers, who form disclosure groups of their own."),
        renew=("roster:renew", "Give a device a new key; its name and disclosure group stay."),
        change=(
            "roster_change:change",
            "Draft a change of disclosure groups, which all owners of the groups that it touches sign.",
        ),
        signatures=(
            "roster_change:signatures",
            "Put the signatures of several copies of a change together, and say whose are missing.",
        ),
        show=("roster:show", "Show disclosure groups and keys, and the digest that a study names."),
    ),
    _group(
        "site",
        "On the machine of whoever has rows: keys, approval, taking part, ledger.",
        enrol=(
            "enrol:enrol_site",
            "Make this device's keys, which stay here, and write the request that its coordinator needs.",
        ),
        encode=(
            "encode:encode_items",
            "Encode pictures or texts once, into a table that a study with a [matrix] section takes.",
        ),
        approve=(
            "approve:approve_study",
            "Read what a study means on this device's rows, and record that it may take part in exactly it.",
        ),
        accept=(
            "ledger:accept_groups",
            "Accept that a study's sums are over other disclosure groups than before, on record.",
        ),
        sign_roster=(
            "roster_change:sign_roster",
            "Sign a change of disclosure groups with this device's key, after reading what becomes computable.",
        ),
        withdraw=("ledger:withdraw_approval", "Take back an approval to which this device has not contributed yet."),
        check=(
            "site_check:check_site",
            "Say whether this machine is ready to join: certificate, clock, disk, approval, rows and broker.",
        ),
        join=(
            "join:join_study",
            "Take part in studies: a process that stays, replies through a broker, and survives restarts.",
        ),
        ledger=(
            "ledger:show_ledger",
            "Show every study that this device approved, and how often it contributed to each.",
        ),
    ),
    _group(
        "server",
        "On the machine that conducts a study: its keys, the run, a page to watch it.",
        enrol=("enrol:enrol_server", "Make the server's keys, which stay here, and write its request."),
        run=(
            "serve:serve_study",
            "Conduct a study: ask its devices for the sums that its analyses need, and write model and results.",
        ),
        watch=(
            "watch:watch_run",
            "Serve a page of a run: score, devices, bytes, time left, and what the server knows by now.",
        ),
    ),
    _group(
        "broker",
        "Set up and start a message broker of one's own.",
        new=("broker:new", "Write a broker's folder: its authority and certificate, access lists, limits."),
        renew=("broker:renew", "Make the broker a new certificate in time."),
        revoke=("broker:revoke", "Refuse a device's certificate from now on, for example because its key was lost."),
        start=(
            "broker:start",
            "Start the broker in this folder: mosquitto where it is installed, else a small one of codedfl's own.",
        ),
    ),
    ListedCommand(LAB, "The paper and research: compare, plan, train, reproduce (package codedfl-lab)."),
)

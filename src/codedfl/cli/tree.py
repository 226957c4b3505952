"""All commands of the product with their lines in the help; each is loaded when it is run."""

from codedfl.cli.listed import Listed

LAB = "lab"

TREE = (
    Listed(
        "study",
        "Write, check and rehearse studies; use their results and models.",
        commands=(
            Listed(
                "describe",
                "Draft a first study that only describes: Table 1 over all devices, on wide public bins.",
                "codedfl.cli.study:describe",
            ),
            Listed(
                "new",
                "Draft a study file from Table 1 or from a sample, with a comment on every choice.",
                "codedfl.cli.study:new",
            ),
            Listed(
                "check", "Say what of a table would be clipped, rounded, missing or unknown.", "codedfl.cli.study:check"
            ),
            Listed(
                "show",
                "Say in plain words and numbers what leaves a machine, who sees what, and what is not protected.",
                "codedfl.cli.study:show",
            ),
            Listed(
                "kit",
                "Make one file for each site, of public parts: study, roster, broker, certificate.",
                "codedfl.cli.study_kit:make_kits",
            ),
            Listed(
                "rehearse",
                "Run a study on tables of this machine, as a dry run.",
                "codedfl.cli.study_rehearsal:rehearse_study",
            ),
            Listed(
                "report",
                "Make the page of a result again, with figures as SVG, PDF and PNG and tables as CSV, HTML and LaTeX.",
                "codedfl.cli.study_report:report_study",
            ),
            Listed(
                "refit",
                "Make another linear model of a study's sum: another penalty, fewer columns, tests, a lasso.",
                "codedfl.cli.study_refit:refit_study",
            ),
            Listed(
                "leave",
                "Take whole parts out of a kept sum, and make the linear model of the others.",
                "codedfl.cli.study_leave:leave_study",
            ),
            Listed(
                "heterogeneity",
                "Compare the coefficients of two results or more: Cochran's Q, I^2, tau^2 and pooled estimates.",
                "codedfl.cli.study_heterogeneity:study_heterogeneity",
            ),
            Listed(
                "predict",
                "Predict the label of every row, as a CSV with one prediction per row.",
                "codedfl.cli.predict:predict",
            ),
            Listed("evaluate", "Score a model on labelled rows, class by class.", "codedfl.cli.predict:evaluate"),
        ),
    ),
    Listed(
        "roster",
        "Make and read rosters: devices, their keys and their disclosure groups.",
        commands=(
            Listed("new", "Divide devices into disclosure groups, as many as there can be.", "codedfl.cli.roster:new"),
            Listed("add", "Add newcomers, who form disclosure groups of their own.", "codedfl.cli.roster:add"),
            Listed("renew", "Give a device a new key; its name and disclosure group stay.", "codedfl.cli.roster:renew"),
            Listed(
                "show", "Show disclosure groups and keys, and the digest that a study names.", "codedfl.cli.roster:show"
            ),
        ),
    ),
    Listed(
        "site",
        "On the machine of whoever has rows: keys, approval, taking part, ledger.",
        commands=(
            Listed(
                "enrol",
                "Make this device's keys, which stay here, and write the request that its coordinator needs.",
                "codedfl.cli.enrol:enrol_site",
            ),
            Listed(
                "encode",
                "Encode pictures or texts once, into a table that a study with a [matrix] section takes.",
                "codedfl.cli.encode:encode_items",
            ),
            Listed(
                "approve",
                "Read what a study means on this device's rows, and record that it may take part in exactly it.",
                "codedfl.cli.approve:approve_study",
            ),
            Listed(
                "withdraw",
                "Take back an approval to which this device has not contributed yet.",
                "codedfl.cli.approve:withdraw_approval",
            ),
            Listed(
                "check",
                "Say whether this machine is ready to join: certificate, clock, disk, approval, rows and broker.",
                "codedfl.cli.join:check_site",
            ),
            Listed(
                "join",
                "Take part in studies: a process that stays, replies through a broker, and survives restarts.",
                "codedfl.cli.join:join_study",
            ),
            Listed(
                "ledger",
                "Show every study that this device approved, and how often it contributed to each.",
                "codedfl.cli.ledger:show_ledger",
            ),
        ),
    ),
    Listed(
        "server",
        "On the machine that conducts a study: its keys, the run, a page to watch it.",
        commands=(
            Listed(
                "enrol",
                "Make the server's keys, which stay here, and write its request.",
                "codedfl.cli.enrol:enrol_server",
            ),
            Listed(
                "run",
                "Conduct a study: ask its devices for the sums that its analyses need, and write model and results.",
                "codedfl.cli.serve:serve_study",
            ),
            Listed(
                "watch",
                "Serve a page of a run: score, devices, bytes, time left, and what the server knows by now.",
                "codedfl.cli.watch:watch_run",
            ),
        ),
    ),
    Listed(
        "broker",
        "Set up and start a message broker of one's own.",
        commands=(
            Listed(
                "new",
                "Write a broker's folder: its authority and certificate, access lists, limits.",
                "codedfl.cli.broker:new",
            ),
            Listed("renew", "Make the broker a new certificate in time.", "codedfl.cli.broker:renew"),
            Listed(
                "revoke",
                "Refuse a device's certificate from now on, for example because it was lost.",
                "codedfl.cli.broker:revoke",
            ),
            Listed(
                "start",
                "Start the broker in this folder: mosquitto where it is installed, else a small one of codedfl's own.",
                "codedfl.cli.broker:start",
            ),
        ),
    ),
    Listed(LAB, "The paper and research: compare, plan, train, reproduce (package codedfl-lab)."),
)

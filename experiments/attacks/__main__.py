"""Run every attack against every scheme; write results.json and attack.png.

python -m experiments.attacks --out results/attacks --dataset mnist
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from codedfl.protocol.schemes.coded_keys import CodedKeys, OneShot
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.gradient_coded import GradientCoded
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl_lab.costs.central import CentralTotals
from experiments.attacks import curious_device, one_device, roles
from experiments.attacks.collusion import collude
from experiments.attacks.decoder import Decoder
from experiments.attacks.distinguishing import compare_worlds, faults_for
from experiments.attacks.entries import recovered_entries
from experiments.attacks.one_device import Finding, best_of, cases_for, score_attempt, server_view, yardstick
from experiments.attacks.picture import AWAY, SAFE, Strip, draw, save
from experiments.attacks.scoring import Score
from experiments.attacks.setting import SIZES, SPLITS, Setting, Size, make_setting

# Scheme, masks, attempt, and what the picture says of it; the score is written behind.
PICTURED = (
    ("conventional-full-batch", True, "first gradient", "from its first gradient"),
    ("coded-fedl", True, "parity rows", "from its parity rows"),
    ("coded-padded", False, "lattice reduction", "from all answers, by lattice reduction"),
    ("coded-padded", True, "lattice reduction", "from all answers, by lattice reduction"),
    ("coded-padded", True, one_device.WITH_COLLUDER, "from what one colluder holds"),
    ("role-keys", True, one_device.WITH_COLLUDER, "from what one colluder holds"),
    ("role-keys", True, "own upload less the sums of pads", "from its own upload and all answers"),
    ("role-keys", True, "decoded total", "the total, everybody's average"),
)
RUNS = 1000  # per world of the distinguishing test
FAULTY_RUNS = 20  # with pads or masks broken on purpose, far fewer tell
_COLLUSION_FEATURES = 60  # the arithmetic is the same for every entry


def attack_split(
    setting: Setting, decoder: Decoder, seed: int, console: Console
) -> tuple[dict[str, Any], list[Finding]]:
    """Server and device against one split: scores of every attempt, and the server's findings."""
    measure = yardstick(setting, decoder)
    console.print(f"[bold]{setting.split}[/bold]: the total alone scores {_text(measure)}")
    totals = CentralTotals(setting.problem)
    rows: list[dict[str, Any]] = []
    findings: list[Finding] = []
    for case in cases_for(setting.problem.n_devices):
        rng = np.random.default_rng(seed)
        server = [score_attempt(case, one, setting, decoder) for one in one_device.attempts_on(case, setting, rng)]
        findings += server
        best = best_of(server)
        coded = isinstance(case.scheme, GradientCoded) and not case.colluder
        entries = recovered_entries(server_view(case, setting), setting.problem) if coded else []
        device: list[Finding] = []
        if case.masks and not case.colluder and setting.split != "few":
            attempts = curious_device.attempts_on(case, setting, totals, rng)
            device = [score_attempt(case, one, setting, decoder) for one in attempts]
        rows.append(
            {
                "scheme": case.scheme.name,
                "label": case.label,
                **case.scheme.parameters,
                "masks": case.masks,
                "colluder": case.colluder,
                "claims_privacy": case.claims_privacy,
                "server": {finding.attempt: finding.score.summary() for finding in server},
                "server_best": best.attempt,
                "server_gives_away": best.score.gives_away(measure),
                "server_learns_nothing_more": all(finding.score.gives_nothing(measure) for finding in server),
                "entries": [{**asdict(one), "beyond_chance": one.beyond_chance} for one in entries],
                "device": {finding.attempt: finding.score.summary() for finding in device},
                "device_learns_nothing_more": all(finding.score.gives_nothing(measure) for finding in device),
            }
        )
        console.print(f"  {case.label}: server {_text(best.score)} by {best.attempt}")
    return {"yardstick": measure.summary(), "schemes": rows}, findings


def collusions(dataset: str, seed: int) -> list[dict[str, Any]]:
    """Server and one device, at several alpha; and two devices that leave one between them.

    Of role keys z devices, and z + 1 of different roles.
    """
    devices = SIZES[dataset].devices
    setting = make_setting(dataset, "shuffled", seed, Size(40 * devices, devices, _COLLUSION_FEATURES))
    sets = [(1, [0]), (devices // 4, [0]), (devices // 4, [devices - 1]), (devices - 2, [3]), (devices - 1, [0])]
    sets += [(2, [0, 3]), (3, [0, 8])]
    found = [
        collude(scheme(alpha), setting.problem, who)
        for scheme in (CodedPadded, CodedKeys, OneShot)
        for alpha, who in sets
    ]
    for z in (1, 2):
        scheme = RoleKeys(z)
        for count in (z, z + 1):
            who = list(roles.different_roles(scheme, setting.problem, count))
            found.append(roles.collude(scheme, setting.problem, who))
    return [{**asdict(one), "as_predicted": one.as_predicted} for one in found]


def worlds(runs: int, seed: int) -> list[dict[str, Any]]:
    """Every coded scheme, and one with groups; as they are, and with every fault that can be provoked."""
    found = []
    schemes = (CodedPadded(2), CodedKeys(2), OneShot(2), CodedPadded(2, groups=2), RoleKeys(1))
    for scheme in schemes:
        found += compare_worlds(scheme, runs, seed)
        for fault in faults_for(scheme):
            found += compare_worlds(scheme, min(runs, FAULTY_RUNS), seed, fault)
    return [{**asdict(one), "distinguishable": one.distinguishable} for one in found]


def strips_of(setting: Setting, findings: Sequence[Finding]) -> list[Strip]:
    """The digits of the first device with few samples, and what the attempts in ``PICTURED`` show of them."""
    targets = [target for target in setting.targets() if target.device == 0]
    strips = [Strip("one device's digits, as they are", [setting.mean_image(target) for target in targets])]
    for scheme, masks, attempt, note in PICTURED:
        finding = next(
            one for one in findings if (one.case.scheme.name, one.case.masks, one.attempt) == (scheme, masks, attempt)
        )
        colour = SAFE if finding.case.claims_privacy else AWAY
        images = [finding.pictures.get(target) for target in targets]
        strips.append(Strip(finding.case.label, images, colour, f"{note}: {round(finding.score.mean, 2) + 0.0:.2f}"))
    return strips


def _text(score: Score) -> str:
    return f"{score.mean:.2f} ± {score.standard_error:.2f}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="experiments.attacks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--dataset", choices=sorted(SIZES), default="digits")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs per world of the distinguishing test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/attacks"))
    options = parser.parse_args(argv)
    if options.runs < 1:
        parser.error(f"--runs must be at least 1, got {options.runs}")
    console, started = Console(), time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"dataset": options.dataset, "seed": options.seed, "size": asdict(SIZES[options.dataset])}
    decoder: Decoder | None = None
    record["splits"] = {}
    for split in SPLITS:
        setting = make_setting(options.dataset, split, options.seed)
        # The feature map and the public images are the same for all splits.
        decoder = decoder or Decoder(setting.feature_map, setting.public)
        record["splits"][split], findings = attack_split(setting, decoder, options.seed, console)
        if split == "few":
            title = "What a curious server gets of one device (1.00: its very digits, 0.00: no more than the total)"
            save(draw(strips_of(setting, findings), setting.side, title), options.out / "attack.png")
    record["collusions"] = collusions(options.dataset, options.seed)
    record["distinguishing"] = worlds(options.runs, options.seed)
    record["verdicts"] = verdicts(record)
    (options.out / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    for claim, holds in record["verdicts"].items():
        console.print(f"{'[green]holds[/green]' if holds else '[red]FAILS[/red]'}  {claim}")
    console.print(f"wrote {options.out}/results.json and attack.png in {time.perf_counter() - started:.0f} s")


def verdicts(record: dict[str, Any]) -> dict[str, bool]:
    """What must hold, each read off what was measured."""
    rows = [row for split in record["splits"].values() for row in split["schemes"]]
    baselines = [row for row in rows if row["masks"] and not row["colluder"] and not row["claims_privacy"]]
    ours = [row for row in rows if row["claims_privacy"]]
    bare = [row for row in rows if not row["masks"]]
    clean = [one for one in record["distinguishing"] if one["fault"] == "none"]
    faulty: dict[tuple[str, int, str], bool] = {}
    for one in record["distinguishing"]:
        if one["fault"] != "none":
            key = (one["scheme"], one["groups"], one["fault"])
            faulty[key] = faulty.get(key, False) or one["distinguishable"]
    return {
        "conventional FL and CodedFedL give single devices away, on every split": all(
            row["server_gives_away"] for row in baselines
        ),
        "our schemes give the server nothing beyond the total, role keys also with a colluder, on every split": all(
            row["server_learns_nothing_more"] for row in ours
        ),
        "one colluding device gives single devices away in coded-padded at its default alpha": all(
            row["server_gives_away"] for row in rows if row["colluder"] and not row["claims_privacy"]
        ),
        "with masks off, lattice reduction or sparse solves bring devices back": all(
            any(row["server_gives_away"] for row in bare if row["label"] == label)
            for label in {row["label"] for row in bare}
        ),
        "with masks, no number of G^(1), X'X or X'X e of a device is found, but by chance": not any(
            entry["beyond_chance"] for row in ours for entry in row["entries"]
        ),
        "with masks off, lattice reduction finds those of X'X and X'X e where it finds those of G^(1)": all(
            _found_alike(row["entries"]) for row in bare
        ),
        "a device learns nothing beyond the total, in any scheme": all(
            row["device_learns_nothing_more"] for row in rows
        ),
        "a collusion finds exactly the devices the threat model names": all(
            one["as_predicted"] for one in record["collusions"]
        ),
        "two worlds with the same total look the same to others": not any(one["distinguishable"] for one in clean),
        "the same test tells them apart when pads are reused, masks repeated or off": all(faulty.values()),
    }


def _found_alike(entries: Sequence[dict[str, Any]]) -> bool:
    """Whether lattice reduction finds all of G^(1) and all of the rest, or not all of G^(1)."""
    whole = [one["recovered"] == one["attempted"] for one in entries if one["attack"] == "lattice reduction"]
    return all(whole) or not whole[0]


if __name__ == "__main__":
    main()

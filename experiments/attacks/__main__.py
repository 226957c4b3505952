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

from codedfl.central import CentralTotals
from codedfl.schemes import CodedKeys, CodedPadded, CodedScheme, OneShot
from experiments.attacks import curious_device, one_device
from experiments.attacks.collusion import collude
from experiments.attacks.decoder import Decoder
from experiments.attacks.distinguishing import compare_worlds
from experiments.attacks.one_device import Finding, best_of, cases_for, score_attempt, yardstick
from experiments.attacks.picture import AWAY, SAFE, Strip, draw
from experiments.attacks.scoring import Score
from experiments.attacks.setting import SIZES, SPLITS, Setting, Size, make_setting

# Scheme, masks, attempt, and what the picture says of it; the score is written behind.
PICTURED = (
    ("conventional-full-batch", True, "first gradient", "from its first gradient"),
    ("coded-fedl", True, "parity rows", "from its parity rows"),
    ("coded-padded", False, "lattice reduction", "from all answers, by lattice reduction"),
    ("coded-padded", True, "lattice reduction", "from all answers, by lattice reduction"),
    ("coded-keys", True, "own answer", "from its own upload and answer"),
    ("coded-keys", True, "decoded total", "the total, everybody's average"),
)
RUNS = 1000  # per world of the distinguishing test
FAULTY_RUNS = 100  # with a pad reused on purpose or masks off, far fewer tell
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
        device: list[Finding] = []
        if case.masks and setting.split != "few":
            attempts = curious_device.attempts_on(case, setting, totals, rng)
            device = [score_attempt(case, one, setting, decoder) for one in attempts]
        rows.append(
            {
                "scheme": case.scheme.name,
                "label": case.label,
                **case.scheme.parameters,
                "masks": case.masks,
                "claims_privacy": case.claims_privacy,
                "server": {finding.attempt: asdict(finding.score) for finding in server},
                "server_best": best.attempt,
                "server_gives_away": best.score.gives_away(measure),
                "server_learns_nothing_more": all(finding.score.gives_nothing(measure) for finding in server),
                "device": {finding.attempt: asdict(finding.score) for finding in device},
                "device_learns_nothing_more": all(finding.score.gives_nothing(measure) for finding in device),
            }
        )
        console.print(f"  {case.label}: server {_text(best.score)} by {best.attempt}")
    return {"yardstick": asdict(measure), "schemes": rows}, findings


def collusions(dataset: str, seed: int) -> list[dict[str, Any]]:
    """Server and one device, at several alpha; and two devices that leave one between them."""
    devices = SIZES[dataset].devices
    setting = make_setting(dataset, "shuffled", seed, Size(40 * devices, devices, _COLLUSION_FEATURES))
    sets = [(1, [0]), (devices // 4, [0]), (devices // 4, [devices - 1]), (devices - 2, [3]), (devices - 1, [0])]
    sets += [(2, [0, 3]), (3, [0, 8])]
    found = [
        collude(scheme(alpha), setting.problem, who)
        for scheme in (CodedPadded, CodedKeys, OneShot)
        for alpha, who in sets
    ]
    return [{**asdict(one), "as_predicted": one.as_predicted} for one in found]


def worlds(runs: int, seed: int) -> list[dict[str, Any]]:
    schemes: tuple[CodedScheme, ...] = (CodedPadded(2), CodedKeys(2))
    found = [one for scheme in schemes for one in compare_worlds(scheme, runs, seed)]
    for fault in ("pads reused", "masks off"):
        found += [one for scheme in schemes for one in compare_worlds(scheme, min(runs, FAULTY_RUNS), seed, fault)]
    return [{**asdict(one), "distinguishable": one.distinguishable} for one in found]


def strips_of(setting: Setting, findings: Sequence[Finding]) -> list[Strip]:
    """The digits of the device with few samples, and what is shown of them by the attempts named in ``PICTURED``."""
    targets = setting.targets()
    strips = [Strip("one device's digits, as they are", [setting.mean_image(target) for target in targets])]
    for scheme, masks, attempt, note in PICTURED:
        finding = next(
            one for one in findings if (one.case.scheme.name, one.case.masks, one.attempt) == (scheme, masks, attempt)
        )
        colour = SAFE if finding.case.claims_privacy else AWAY
        images = [finding.pictures.get(target) for target in targets]
        strips.append(Strip(finding.case.label, images, colour, f"{note}: {finding.score.mean:.2f}"))
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
        decoder = decoder or Decoder(setting.problem.feature_map, setting.public)
        record["splits"][split], findings = attack_split(setting, decoder, options.seed, console)
        if split == "few":
            title = "What a curious server gets of one device (1.00: its very digits, 0.00: no more than the total)"
            figure = draw(strips_of(setting, findings), setting.side, title)
            figure.savefig(options.out / "attack.png", dpi=130)
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
    baselines = [row for row in rows if row["masks"] and not row["claims_privacy"]]
    ours = [row for row in rows if row["claims_privacy"]]
    bare = [row for row in rows if not row["masks"]]
    clean = [one for one in record["distinguishing"] if one["fault"] == "none"]
    faulty: dict[tuple[str, str], bool] = {}
    for one in record["distinguishing"]:
        if one["fault"] != "none":
            key = (one["scheme"], one["fault"])
            faulty[key] = faulty.get(key, False) or one["distinguishable"]
    return {
        "conventional FL and CodedFedL give single devices away, on every split": all(
            row["server_gives_away"] for row in baselines
        ),
        "our schemes give the server nothing beyond the total, on every split, for every alpha": all(
            row["server_learns_nothing_more"] for row in ours
        ),
        "with masks off, lattice reduction or sparse solves bring devices back": all(
            any(row["server_gives_away"] for row in bare if row["label"] == label)
            for label in {row["label"] for row in bare}
        ),
        "a device learns nothing beyond the total, in any scheme": all(
            row["device_learns_nothing_more"] for row in rows
        ),
        "a collusion finds exactly the devices the threat model names": all(
            one["as_predicted"] for one in record["collusions"]
        ),
        "two worlds with the same total look the same to others": not any(one["distinguishable"] for one in clean),
        "the same test tells them apart when a pad is reused or masks are off": all(faulty.values()),
    }


if __name__ == "__main__":
    main()

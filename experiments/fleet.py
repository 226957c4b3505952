"""A fleet on this machine: a broker, a server and five devices, TLS throughout; one slow, one killed, one that returns.

``make fleet`` runs it. Every device approves a study of digits, a matrix of pixels, and joins; the server counts, then
trains on random features. It prints what happens, and checks that the model is the rehearsal's, bit for bit, and that
whoever was told of the end has wiped its secrets. Everything it starts, it stops.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.data.model import TrainedModel
from codedfl_lab import datasets
from experiments.local_fleet import LocalFleet
from experiments.local_study import LocalStudy, agree, digits_study, digits_tables, pixels_table

DEVICES = 5
KILLED, RETURNS, SLOW = 1, 2, 4
SLOW_SECONDS, OTHERS_SECONDS = 1.0, 0.1


def went_on(events: list[dict[str, Any]], device: str) -> bool:
    """Whether it answered, in time or not, after it had connected for the second time."""
    its = [event["event"] for event in events if event.get("device") == device]
    again = [place for place, event in enumerate(its) if event == "connected"][1:]
    return bool(again) and any(event.endswith("answer") for event in its[again[0] :])


def in_javascript(made: LocalStudy, programs: Path, folder: Path) -> list[str]:
    """The command of a device in JavaScript; what follows from the study, another program tells it."""
    name = made.names[RETURNS]
    asked = [sys.executable, "-m", "experiments.plain_terms", str(made.study_file), str(made.roster_file)]
    printed = subprocess.run([*asked, str(made.state(name)), name], capture_output=True, text=True, check=True)
    (folder / "terms.json").write_text(printed.stdout)
    return ["node", str(programs / "join.mjs"), str(folder / "terms.json"), str(folder / "memory.json"), "--once"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--features", type=int, default=200, help="random ones; from 1640 on updates go by pieces")
    parser.add_argument("--program", default="", help="mosquitto or small; mosquitto if installed")
    parser.add_argument("--javascript", type=Path, help="examples/javascript: the device that returns is that")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all is stopped on the way out
    delays = {i: ["--delay", str(SLOW_SECONDS if i == SLOW else OTHERS_SECONDS)] for i in range(DEVICES)}
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="codedfl-fleet-") as temporary:
        folder = Path(temporary)
        study = digits_study(2048, features=options.features, epochs=options.epochs, solver="gd")
        made = agree(folder / "fleet", study, digits_tables(DEVICES))
        say(f"{DEVICES} devices have approved {made.study}")
        others = {RETURNS: in_javascript(made, options.javascript, folder)} if options.javascript else {}
        with LocalFleet(made, program=options.program, delays=delays, others=others) as fleet:
            say(f"{options.program or fleet.broker.program()} and {DEVICES} devices at {fleet.url}")
            say(f"device-{SLOW} answers {SLOW_SECONDS:g} s late, the others {OTHERS_SECONDS:g} s")
            fleet.start_server()
            fleet.wait_for_epoch(3)
            fleet.kill(fleet.names[KILLED])
            say(f"epoch 3: killed device-{KILLED} for good")
            fleet.wait_for_epoch(6)
            fleet.kill(fleet.names[RETURNS])
            fleet.start_device(RETURNS)
            say(f"epoch 6: killed device-{RETURNS}, and started it again")
            code = fleet.wait_for_server(100.0)
            say(f"the server has ended with {code}")
            for line in fleet.log_of("server").splitlines():
                print(f"          {line}")
            events = fleet.events()
            left = fleet.secrets_left(but=[KILLED])
        model = TrainedModel.load(fleet.output / "model.safetensors")
        expected = made.rehearsed().findings.model
    answers = dict.fromkeys(fleet.names, 0)
    for event in events:
        if event["event"] == "answer":
            answers[event["device"]] += 1
    print("answers in time: " + ", ".join(f"{name} {count}" for name, count in answers.items()))
    returned = went_on(events, fleet.names[RETURNS])
    same = np.array_equal(model.theta, expected.theta)
    data = datasets.load("digits", use_network=False)
    accuracy = model.score(pixels_table(data.X_test, data.y_test), data.y_test)
    print(f"accuracy {accuracy:.4f}; the rehearsal's model, bit for bit: {same}")
    print(f"device-{RETURNS} went on after its return: {returned}")
    print(f"secrets left on the devices that were told of the end: {len(left)} files")
    return 0 if code == 0 and same and returned and not left else 1


if __name__ == "__main__":
    sys.exit(main())

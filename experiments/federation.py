"""A federation on this machine: real SuperLink and SuperNodes, TLS, authentication, slow nodes and a killed one.

``make federation`` runs it. It trains digits with role keys, prints the rounds as they pass, kills one node on the
way, and checks that the model is the one of the in-process run, bit for bit. Everything it starts, it stops.

``--comes-back`` starts the killed node again, as systemd would, and takes coded keys with alpha = 1, which tolerate
nobody: the run can only end if the node rejoins with the state it had.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.data import datasets
from codedfl.data.model import TrainedModel
from codedfl.data.partition import partition
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.run_config import RunConfig
from experiments.local_federation import LocalFederation

APP = Path(__file__).resolve().parent.parent / "apps" / "flower"
KILL_AFTER_EPOCH = 2
RESTART_SECONDS = 10.0
SLOW_SECONDS = 15.0  # several epochs


def app_config(**changes: Any) -> dict[str, Any]:
    """The app's configuration with some values replaced, by name with underscores."""
    config: dict[str, Any] = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    return config | {key.replace("_", "-"): value for key, value in changes.items()}


def local_parts(config: dict[str, Any], devices: int) -> list[tuple[Any, Any]]:
    """The rows each node has, as the app deals them out."""
    data = datasets.load(config["data"], use_network=False)
    rng = np.random.default_rng(config["partition-seed"])
    parts = partition(config["partition"], data.y_train, devices, rng)
    return [(data.X_train[rows], data.y_train[rows]) for rows in parts]


def keep_running(federation: LocalFederation, node: int, over: threading.Event) -> None:
    """As a service manager does: a node whose old connection is still remembered is refused for about a minute."""
    while not over.wait(RESTART_SECONDS):
        if not federation.node_runs(node):
            federation.start_node(node)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--comes-back", action="store_true", help="start the killed node again; coded-keys, alpha = 1")
    options = parser.parse_args(arguments)
    devices = options.nodes
    if devices < 4:
        parser.error(f"--nodes must be at least 4, for one to be killed and one to be slow, got {devices}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the nodes are stopped on the way out
    needs_everybody = {"scheme": "coded-keys", "alpha": 1} if options.comes_back else {}
    config = app_config(devices=devices, epochs=options.epochs, farewell_seconds=30.0, **needs_everybody)
    with tempfile.TemporaryDirectory(prefix="codedfl-federation-") as temporary:
        folder = Path(temporary)
        config["output-dir"] = str(folder / "server")
        nodes: list[dict[str, Any]] = [
            {"partition-id": i, "num-partitions": devices, "state-dir": str(folder / f"state-{i}")}
            for i in range(devices)
        ]
        slow, killed = devices - 1, 1
        nodes[slow]["delay-seconds"] = SLOW_SECONDS
        over = threading.Event()
        began = time.monotonic()
        print(f"starting a SuperLink with TLS and authentication and {devices} SuperNodes on 127.0.0.1", flush=True)
        with LocalFederation(folder / "federation", nodes) as federation:
            changed = {key: value for key, value in config.items() if app_config()[key] != value}
            run = federation.flwr.start_run(APP, changed)
            print(f"{time.monotonic() - began:6.1f} s  node {slow} answers {SLOW_SECONDS:g} s late", flush=True)
            for line in federation.flwr.follow(run):
                print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)
                if line.startswith(f"epoch {KILL_AFTER_EPOCH} "):
                    federation.kill_node(killed)
                    print(f"{time.monotonic() - began:6.1f} s  killed node {killed}", flush=True)
                    if options.comes_back:
                        keeper = threading.Thread(target=keep_running, args=(federation, killed, over), daemon=True)
                        keeper.start()
            over.set()
        model = TrainedModel.load(folder / "server" / "model.safetensors")
        expected = rehearse(RunConfig.from_config(config), local_parts(config, devices))
        left = [
            path
            for i in range(devices)
            if i != killed or options.comes_back
            for path in folder.glob(f"state-{i}/*/runs/*/*")
        ]
    same = np.array_equal(model.theta, expected)
    data = datasets.load(config["data"], use_network=False)
    print(f"accuracy {model.score(data.X_test, data.y_test):.4f}; the in-process run's model, bit for bit: {same}")
    print(f"secrets left on the nodes that were told of the end: {len(left)} files")
    return 0 if same and not left else 1


if __name__ == "__main__":
    sys.exit(main())

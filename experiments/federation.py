"""A federation on this machine: real SuperLink and SuperNodes, TLS, authentication, slow nodes and a killed one.

``make federation`` runs it. Every node approves a study of digits; the server app counts, then trains on random
features. It prints the rounds as they pass, kills one node on the way, and checks that the model is the rehearsal's,
bit for bit. Everything it starts, it stops.

``--comes-back`` starts the killed node again, as systemd would, in a study where two nodes hold the seeds, one per
role: the run can only end if the node rejoins with the state it had.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from codedfl.data.model import TrainedModel
from codedfl_lab import datasets
from experiments.local_federation import LocalFederation
from experiments.local_study import LocalStudy, agree, digits_study, digits_tables, pixels_table

APP = Path(__file__).resolve().parent.parent / "apps" / "flower"
KILL_AFTER_EPOCH = 2
RESTART_SECONDS = 10.0
SLOW_SECONDS = 15.0  # several epochs


def server_config(made: LocalStudy, output: Path, **patience: float) -> dict[str, Any]:
    """What ``flwr run`` is told; ``patience`` by the fields of its file."""
    waits = made.folder / "patience.toml"
    waits.write_text(tomli_w.dumps(patience))
    files = {"study-file": made.study_file, "roster": made.roster_file, "output-dir": output}
    files |= {"server-key-file": made.server_key, "patience-file": waits}
    return {key: str(path) for key, path in files.items()}


def node_configs(made: LocalStudy) -> list[dict[str, Any]]:
    """What each SuperNode is told by its own operator."""
    return [{"kit": str(made.kit_file(name)), "state-dir": str(made.state(name))} for name in made.names]


def keep_running(federation: LocalFederation, node: int, over: threading.Event) -> None:
    """As a service manager does: a node whose old connection is still remembered is refused for about a minute."""
    while not over.wait(RESTART_SECONDS):
        if not federation.node_runs(node):
            federation.start_node(node)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--comes-back", action="store_true", help="start the killed node again: it is needed")
    options = parser.parse_args(arguments)
    devices = options.nodes
    if devices < 4:
        parser.error(f"--nodes must be at least 4, for one to be killed and one to be slow, got {devices}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the nodes are stopped on the way out
    needs_everybody: dict[str, Any] = {"holders": 2} if options.comes_back else {}
    with tempfile.TemporaryDirectory(prefix="codedfl-federation-") as temporary:
        folder = Path(temporary)
        made = agree(
            folder / "study", digits_study(2048, epochs=options.epochs, **needs_everybody), digits_tables(devices)
        )
        config, nodes = server_config(made, folder / "server", retry=30.0, hedge=5.0), node_configs(made)
        slow, killed = devices - 1, 1
        nodes[slow]["delay-seconds"] = SLOW_SECONDS
        over = threading.Event()
        began = time.monotonic()
        print(f"starting a SuperLink with TLS and authentication and {devices} SuperNodes on 127.0.0.1", flush=True)
        with LocalFederation(folder / "federation", nodes) as federation:
            run = federation.flwr.start_run(APP, config)
            print(f"{time.monotonic() - began:6.1f} s  node {slow} answers {SLOW_SECONDS:g} s late", flush=True)
            for line in federation.flwr.follow(run):
                print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)
                if line == f"epoch {KILL_AFTER_EPOCH}":
                    federation.kill_node(killed)
                    print(f"{time.monotonic() - began:6.1f} s  killed node {killed}", flush=True)
                    if options.comes_back:
                        keeper = threading.Thread(target=keep_running, args=(federation, killed, over), daemon=True)
                        keeper.start()
            over.set()
        model = TrainedModel.load(folder / "server" / "model.safetensors")
        expected = made.rehearsed().findings.model
        left = made.secrets_left(() if options.comes_back else (made.names[killed],))
    same = np.array_equal(model.theta, expected.theta)
    data = datasets.load("digits", use_network=False)
    accuracy = model.score(pixels_table(data.X_test, data.y_test), data.y_test)
    print(f"accuracy {accuracy:.4f}; the rehearsal's model, bit for bit: {same}")
    print(f"secrets left on the nodes that were told of the end: {len(left)} files")
    return 0 if same and not left else 1


if __name__ == "__main__":
    sys.exit(main())

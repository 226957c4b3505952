"""The client app: what Flower starts on a node for every call.

A node's own configuration (``flower-supernode --node-config``) says who it is and whom it trusts; nobody else can
change it: device-name, state-dir, server-key (the server's public key in hex), roster (a file), and its policy
(``engine.policy_config``). With study-file, table and approvals, three files of the node, it takes part in the stages
of that study and in nothing else. In the simulation engine there is only a partition-id, which makes the name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from numpy.typing import NDArray

from codedfl.data.studies import load_study
from codedfl.data.tables import read_file
from codedfl.engine.calls import Refused
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.device_stages import DeviceStages
from codedfl.engine.keys import DEVICE_KEY, load_identity, load_roster, parse_public
from codedfl.engine.learning import Learning, setting
from codedfl.engine.local_rows import device_rows
from codedfl.engine.logs import use_flower_logs
from codedfl.engine.policy_config import node_policy
from codedfl.engine.private_files import default_state_dir
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.flower.records import KINDS, read_call, reply_record
from codedfl.protocol import Policy
from codedfl.protocol.local_data import LocalRows

# Of a node of the simulation engine: one process has all data, and there is no operator to pin a roster.
SIMULATED = Policy(allow_gram=True, allow_unpinned=True, colluders=0)

LoadLocalData = Callable[[Context], tuple[NDArray[Any], NDArray[Any]]]


def make_client_app(load_local_data: LoadLocalData, mods: list[Mod] | None = None) -> ClientApp:
    """The Flower client app of a coded training.

    load_local_data: returns the device's raw rows and labels. It is called in phase 1 only, in the node's process;
        what it returns is dropped as soon as the device has its statistics, and never leaves the node unpadded.
    mods: Flower's modifiers, around every call.
    """
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        use_flower_logs()
        try:
            call = read_call(message.metadata.message_type, message.content)
            reply = make_host(context, load_local_data).handle(call)
        except (InvalidInput, MessageRefused) as error:
            reply = Refused(str(error))
        return Message(reply_record(reply), reply_to=message)

    for kind in KINDS:
        category, action = kind.split(".")
        register = app.train if category == "train" else app.query
        register(action, mods=mods)(handle)
    return app


def make_host(context: Context, load_local_data: LoadLocalData) -> DeviceHost:
    """The device of a node, by its configuration."""
    node = context.node_config
    name = device_name(context)

    def load_rows() -> LocalRows:
        learning = Learning.from_config(context.run_config)
        return device_rows(name, learning, lambda: load_local_data(context))

    folder = Path(setting(node, "state-dir", str, "") or default_state_dir()) / name
    server_key, pinned = setting(node, "server-key", str, ""), setting(node, "roster", str, "")
    identity, roster = load_identity(folder / DEVICE_KEY), load_roster(Path(pinned)) if pinned else None
    policy = node_policy(node) if "device-name" in node else SIMULATED
    stages = None
    if setting(node, "study-file", str, ""):
        study, table, approvals = (Path(setting(node, key, str)) for key in ("study-file", "table", "approvals"))
        stages = DeviceStages(
            name, load_study(study), lambda: read_file(table), identity, folder, approvals, policy, roster
        )
    return DeviceHost(
        name,
        identity,
        folder / "runs",
        load_rows,
        server_public=parse_public(server_key, "server-key") if server_key else None,
        roster=roster,
        recipe=lambda: Learning.from_config(context.run_config).recipe.digest(),
        policy=policy,
        stages=stages,
    )


def device_name(context: Context) -> str:
    """device-name of the node's configuration; without it device-i, from the partition-id."""
    name = setting(context.node_config, "device-name", str, "")
    if not name:
        name = f"device-{setting(context.node_config, 'partition-id', int)}"
    if Path(name).name != name or name == ".." or not name.isprintable():
        raise InvalidInput(f"device-name must do as the name of a folder, got {name!r}")
    return str(name)

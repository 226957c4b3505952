"""The client app: what Flower starts on a node for every call.

A node's own configuration (``flower-supernode --node-config``) says who it is and what it has; nobody else can change
it: device-name, state-dir, study-file, roster. It takes part in that study, which must be approved in its state folder
(``codedfl study approve``), and in nothing else.
"""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from codedfl.contract.names import checked_name
from codedfl.contract.toml_file import load_study
from codedfl.device.membership import Membership
from codedfl.engine.calls import Refused
from codedfl.engine.device_host import DeviceHost
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.flower.config import setting
from codedfl.flower.records import KINDS, read_call, reply_record
from codedfl.logs import use_flower_logs
from codedfl.private_files import default_state_dir
from codedfl.protocol.terms import DOES_NOT_TAKE_PART


def make_client_app(mods: list[Mod] | None = None) -> ClientApp:
    """The Flower client app of a study; ``mods`` are Flower's modifiers, around every call."""
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        log = use_flower_logs()
        try:
            call = read_call(message.metadata.message_type, message.content)
            reply = make_host(context).handle(call)
        except (InvalidInput, MessageRefused) as error:
            log.error("this node does not take part: %s", error)
            reply = Refused(DOES_NOT_TAKE_PART)
        return Message(reply_record(reply), reply_to=message)

    for kind in KINDS:
        category, action = kind.split(".")
        register = app.train if category == "train" else app.query
        register(action, mods=mods)(handle)
    return app


def make_host(context: Context) -> DeviceHost:
    """The device of a node, by its configuration."""
    node = context.node_config
    state = Path(setting(node, "state-dir", str, "") or default_state_dir())
    study, roster = (Path(setting(node, key, str)) for key in ("study-file", "roster"))
    return Membership(device_name(context), state, roster).host(load_study(study), DeviceHost)


def device_name(context: Context) -> str:
    """device-name of the node's configuration."""
    return checked_name(setting(context.node_config, "device-name", str), "device-name")

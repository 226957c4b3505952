"""The client app: what Flower starts on a node for every message.

A node's own configuration (``flower-supernode --node-config``) says who it is and what it has; nobody else can change
it: kit, state-dir. It takes part in the study of that kit, which must be approved in its state folder (``codedfl site
approve``), and in nothing else. Between messages it keeps snapshot and ledger, as every device does.
"""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from codedfl.contract.kit import load_kit
from codedfl.contract.study import Study
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.device.membership import Membership
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.flower.config import setting
from codedfl.flower.records import HELLO, KINDS, Hello, packed, unpacked
from codedfl.logs import use_flower_logs
from codedfl.private_files import default_state_dir


def make_client_app(mods: list[Mod] | None = None) -> ClientApp:
    """The Flower client app of a study; ``mods`` are Flower's modifiers, around every message.

    Examples
    --------
    ``app = make_client_app()`` in the module that the app's ``pyproject.toml`` names: see ``apps/flower``.
    """
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        log = use_flower_logs()
        try:
            content = _answered(message, context)
        except (InvalidInput, MessageRefused) as error:
            log.error("this node does not take part: %s", error)
            content = RecordDict()
        return Message(content, reply_to=message)

    for kind in KINDS:
        category, action = kind.split(".")
        register = app.train if category == "train" else app.query
        register(action, mods=mods)(handle)
    return app


def _answered(message: Message, context: Context) -> RecordDict:
    membership, study = member_of(context)
    device = membership.device(study)
    if message.metadata.message_type != HELLO:
        return packed(device.reply(unpacked(message.content)))
    hello = Hello.read(message.content)
    if hello.study != study.digest():
        raise MessageRefused(f"the study must be {study.digest().hex()[:16]}, got {hello.study.hex()[:16]}")
    identity = load_identity(membership.folder / DEVICE_KEY)
    return hello.answered(message.metadata.dst_node_id, membership.name, identity)


def member_of(context: Context) -> tuple[Membership, Study]:
    """The device of a node and its study, by the node's configuration."""
    node = context.node_config
    state = Path(setting(node, "state-dir", str, "") or default_state_dir())
    kit = load_kit(Path(setting(node, "kit", str)))
    return Membership.by_kits([kit], state), kit.study

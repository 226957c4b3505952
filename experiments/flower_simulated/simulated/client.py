"""A virtual node is told by its number which device of the study on this machine it is."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable

from codedfl.flower import make_client_app


def as_device(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    folder = Path(os.environ["CODEDFL_STUDY_FOLDER"])
    name = f"device-{context.node_config['partition-id']}"
    state = folder / f"state-{name}"
    (state / f"calls-{secrets.token_hex(4)}").touch()  # the experiment counts them
    context.node_config = {"kit": str(folder / "kits" / f"{name}.kit"), "state-dir": str(state)}
    return call_next(message, context)


app = make_client_app(mods=[as_device])

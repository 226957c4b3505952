"""``codedfl site join`` with delays on purpose: a device that behaves as if it were slower, for demonstrations.

``python -m experiments.slow_device --delay 0.3 --mean 0.1 --seed 7 STUDY ...``: before every reply with a product so
many seconds, and an exponential time of that mean on top (paper III-B), the rest as ``codedfl site join``.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from codedfl.cli import main as codedfl
from codedfl.sum.device import Device
from codedfl.sum.wire import asks_for_product


def slow_down(delay: float, mean: float, seed: int) -> None:
    """Make every device of this process wait before it works on a product."""
    rng = np.random.default_rng(seed)
    reply = Device.reply

    def slowly(self: Device, request: bytes) -> bytes:
        if asks_for_product(request):
            time.sleep(delay + mean * rng.standard_exponential())
        return reply(self, request)

    setattr(Device, "reply", slowly)  # noqa: B010  mypy knows no other way to replace a method


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--mean", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clock", type=float, default=0.0, help="seconds by which this device's clock is wrong")
    options, rest = parser.parse_known_args()
    if options.clock:
        right = time.time
        time.time = lambda: right() + options.clock
    slow_down(options.delay, options.mean, options.seed)
    sys.argv = ["codedfl", "site", "join", *rest]
    codedfl()


if __name__ == "__main__":
    main()

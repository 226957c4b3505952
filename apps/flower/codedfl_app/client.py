"""What runs on the nodes. Rows come from the snapshot that ``codedfl site approve`` froze there."""

from codedfl.flower import make_client_app
from codedfl.flower.delays import injected_delay

app = make_client_app(mods=[injected_delay])

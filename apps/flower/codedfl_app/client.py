"""What runs on the nodes."""

from codedfl.flower import make_client_app
from codedfl.flower.delays import injected_delay
from codedfl_app.data import load_local_data

app = make_client_app(load_local_data, mods=[injected_delay])

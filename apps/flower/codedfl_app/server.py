"""What runs beside the SuperLink."""

from codedfl.flower import make_server_app
from codedfl_app.data import make_score

app = make_server_app(make_score)

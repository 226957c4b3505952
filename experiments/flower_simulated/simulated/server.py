"""As in the app."""

from codedfl.flower import make_server_app

app = make_server_app()

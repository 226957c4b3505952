"""The schemes ours are compared with; the server sees single devices in all of them."""

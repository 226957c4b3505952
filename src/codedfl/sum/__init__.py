"""The secure sum: requests, replies, the device as a function of them, and the server's side that asks.

Read ``layout`` (numbers), ``keys`` (what is derived from what), ``wire`` (the requests and replies), ``device`` (the
function), ``session`` (the server), in this order; docs/protocol.md says the same for other implementations.
"""

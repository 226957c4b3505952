"""Clock and latencies of simulated fleets, against closed forms and an event loop."""

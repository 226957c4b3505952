"""The laboratory's claims and figures: each judged on results made so that it holds, fails or cannot be judged."""

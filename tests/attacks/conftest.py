"""Attacks that worked on a rule that was left out: each works on the old rule, kept here, and fails on ours."""

"""Workflows to copy, and what `pitstop init` writes."""

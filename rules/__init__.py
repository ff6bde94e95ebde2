"""Knows training repositories: reads them, resolves their jobs, judges them. Runs nothing."""

"""Runs code and says what was measured."""

"""Talks to people and to GitHub; the only package that decides what happens next."""

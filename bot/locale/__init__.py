"""Texts of reports in other languages."""

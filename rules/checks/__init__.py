"""Rules that need reasoning, one file each; data rows are in `catalogues`."""

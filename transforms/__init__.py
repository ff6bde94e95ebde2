"""Text in, text out: fixes as exact edits. No network, no processes."""

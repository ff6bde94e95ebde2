"""The operations of GitHub's REST API that the forge serves, by subject."""

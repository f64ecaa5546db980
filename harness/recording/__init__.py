"""What a run leaves on disk: its directory, its rows, its journal."""

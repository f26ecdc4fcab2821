"""model ↔ disk: the run folder, whose every file is replaced as a whole and checks itself."""

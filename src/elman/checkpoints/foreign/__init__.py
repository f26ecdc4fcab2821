"""model ↔ other programs' files, each conversion with its proof or a refusal."""

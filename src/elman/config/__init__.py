"""TOML ↔ frozen dataclasses: every setting of a run, its default, its range and its meaning."""

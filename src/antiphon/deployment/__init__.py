"""Running a member from a file: `antiphon node CONFIG.toml` (docs/deploy.md, docs/configuration.md)."""

"""Other tools' logs, in and out: one file per format and direction; `docs/formats.md` has the mappings.

What comes in is checked first and refused with file, line and reason (`antiphon.history.formats.errors`). Nothing half
written is left behind (`antiphon.history.formats.target`).
"""

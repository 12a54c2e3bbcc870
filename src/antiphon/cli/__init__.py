"""The command line: one file per command. Commands parse, call and print; what they call knows nothing of them."""

"""The `instruct` command: its verbs and flags."""

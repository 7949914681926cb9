"""What every room may use: errors, output, cards, files, this machine. It imports nothing of the package."""

"""Logs of evaluations that other tools ran: read into one form, and aligned unit by unit. Never loads torch."""

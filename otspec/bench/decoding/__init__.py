"""`otspec bench decode`: every way to decode on the same prompts, in turn, and how long each takes."""

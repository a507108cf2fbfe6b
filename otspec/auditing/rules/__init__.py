"""The front of audits for rules: positions and drafted paths, judged by one driver over cases of laws."""

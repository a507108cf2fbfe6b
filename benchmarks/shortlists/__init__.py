"""What shortlists of tokens cost a drafter, and what they save: see `__main__`."""

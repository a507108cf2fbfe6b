"""The optimal rule for i.i.d. drafts of one position: compiled for the host, and on rows of tensors by a sort."""

"""Who proposes tokens, and by which law.

`protocol` says what a drafter answers; `model` drafts from a language model, the children of a node drawn by one of
the `draft_laws`, and `several` from several models; `prompt_lookup` copies from the text.
`selection` says which tokens a model computes: all, the same few everywhere (`restricted`), or a shortlist for every
slot, by frequency (`shortlists`) or by the context (`router`, which `training` makes).
"""

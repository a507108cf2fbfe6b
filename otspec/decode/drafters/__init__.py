"""Who proposes tokens, and by which law.

`protocol` says what a drafter answers; `model` drafts from a language model, the children of a node drawn by one of
the `draft_laws`, and `several` from several models; `restricted` says which tokens a model keeps; `prompt_lookup`
copies from the text, `suffix` counts what followed in it, `lookahead` keeps what the target guessed behind it, and
`candidates` asks transformers' candidate generators.
"""

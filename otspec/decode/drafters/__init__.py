"""Who proposes tokens, and by which law.

`protocol` says what a drafter answers; `levels` drafts level by level, the children of a node drawn by one of the
`draft_laws`: `model` from a language model, and `several` from several; `foreign` from one with another tokenizer,
`steered` and `fed` (`watching`) from models that the target tells something, and `heads` from what it tells alone.
`selection` says which tokens a model computes: all, the same few everywhere (`restricted`), or a shortlist for every
slot, by frequency (`shortlists`) or by the context (`router`).
Without a model, `prompt_lookup` copies from the text, `suffix` counts what followed in it, `lookahead` keeps what the
target guessed behind it, and `candidates` asks transformers' candidate generators.
"""

from otspec.extras import require

require("torch")
require("transformers")

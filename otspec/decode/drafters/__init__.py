"""Who proposes tokens, and by which law.

`drafter` is the base class of all; `catalogue` finds the drafter of a draft model.  `levels` drafts level by level:
`model` from a language model, `several` from several, `cross_tokenizer` from one with another tokenizer, `sd2` and
`eagle` from models that read the target's hidden states beside the text, `heads` from these states alone, and
`grow_tree` the likeliest tree.  `shortlists` chooses the tokens that a draft model computes: all, the same few
everywhere, or some for every node, by frequency or by the context.
Without a model, `prompt_lookup` copies from the text, and `lookahead` drafts what the target guessed behind it.
"""

from otspec.extras import require

require("torch")
require("transformers")

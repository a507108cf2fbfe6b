"""Names that help texts list, written out: to ask for them would import all that they name.  The tests compare."""

PROFILES = ("llama3", "gemma2", "llama3-plateau", "gemma2-plateau", "shipped", "smollm2")
"""`otspec.data.NAMES`."""

SCHEMES = ("iid", "without_replacement", "greedy", "top_k", "hub_pairs", "independent")
"""The draft laws of this package, `otspec.schemes.catalogue.OWN`."""

FORMS = ("rng", "uniforms", "law", "torch", "torch_uniforms", "plan")
"""How `otspec.audit` calls a rule."""

METHODS = (
    *("multi-draft", "vanilla", "generate", "single", "block", "prompt-lookup", "lookahead"),
    *("dynamic-tree", "typical", "assisted", "assisted-lookup"),
)
"""Methods of decoding."""

DRAFT_LAWS = ("iid", "without_replacement", "greedy", "top_k", "hub_pairs", "independent")
"""`otspec.decode.DRAFT_LAWS`."""


TRAINED = (
    *("distilled", "sd2", "eagle", "eagle1", "eagle3", "shared", "parallel", "medusa", "mlp"),
    *("sd2-frozen", "sd2-blocked", "sd2-after"),
)
"""Kinds of draft models that `otspec train` makes."""

LOSSES = ("kl", "reverse-kl", "jsd", "tvd", "eagle")
"""The losses that training makes small."""

DRAFTERS = ("fr", "pa-fr", "dynaspec", "dynaspec-f", "eagle", "parallel", "tli", "rdk")
"""`otspec.decode.methods.drafting.DRAFTERS`."""


def listed(names: tuple[str, ...]) -> str:
    """Names as a sentence has them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"

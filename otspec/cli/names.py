"""Values of what docstrings of options have in braces: names, written out, and sentences that several of them share.

To look up the names would import all that they name; the tests compare.
"""

PROFILES = ("llama3", "gemma2", "llama3-plateau", "gemma2-plateau", "shipped", "smollm2")
"""`otspec.data.NAMES`."""

SCHEMES = ("iid", "without_replacement", "greedy", "top_k", "hub_pairs", "independent")
"""The draft laws of this package, `otspec.schemes.catalogue.OWN`."""

SINGLE_SCHEMES = tuple(name for name in SCHEMES if name != "independent")
"""Those of one draft model."""

FORMS = ("rng", "uniforms", "law", "torch", "torch_uniforms", "plan")
"""How `otspec.audit` calls a rule."""

PATH_FORMS = ("verifier", "tree", "tree_law", "chains", "chains_law")
"""How `otspec.audit_paths` does."""

METHODS = (
    *("multi-draft", "vanilla", "generate", "single", "block", "prompt-lookup", "lookahead"),
    *("dynamic-tree", "typical", "greedy-lenience", "assisted", "assisted-lookup"),
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
"""The losses that training minimises."""

DRAFTERS = ("fr", "pa-fr", "dynaspec", "dynaspec-f", "eagle", "parallel", "tli", "rdk")
"""`otspec.decode.methods.drafting.DRAFTERS`."""


FORMAT = (
    "A file with a prompt per line, blank lines skipped; or, if its name ends in .jsonl, JSON lines with a field "
    "prompt, or with turns of a conversation, or as data sets are published (alpaca, ultrachat, ShareGPT, xsum, GSM8K, "
    "HumanEval, wikitext, WildJailbreak); or shipped: forty questions that come with the package."
)
TASKS = (
    "A file of JSON lines as in Spec-Bench, in place of --prompts: each has turns or a prompt, and a task or category, "
    "or else its task is the file's name. Repeat the option for more files. The report has figures by task as well. "
    "shipped: forty questions of Spec-Bench's thirteen categories, which come with the package; held-out: "
    "Python, of the kind that the shipped pair learnt from."
)
MODEL = "shipped, a folder written by save_pretrained, a GGUF file, smollm2, or a name on the hub."
OWN_DRAFTERS = "eagle or parallel, for the targets that the package has such drafters for"
BY_TARGET = "shipped for the shipped target, else none"
RULES = "nested,interval,kseq,rrs,global_resolution/naive"
COMPARED = "generate,single,block,prompt-lookup,assisted-lookup,assisted"


def listed(names: tuple[str, ...]) -> str:
    """Names as in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


DRAFTER_HELP = (
    f"{listed(DRAFTERS)}, with a number behind a colon if need be, or a draft model; +fr, +pa-fr, +dynaspec "
    "or +dynaspec-f behind it shortens its head, and by +prompt-lookup one path of each tree is copied from the text"
)

"""Options that exclude each other on a command line: one table, each row with its rule and the way out."""

from __future__ import annotations

from itertools import combinations

from otspec.settings import Conflict

TEXTS, POSITIONS = "--of text", "--of logits or probabilities"
OF_TARGET, ONE_AHEAD, ALL_TOKENS = "a kind of the target", "a kind of one draft", "a kind of all tokens"
TEXT_FILE = "a file of --texts"
NO_STEPS, NO_QUESTIONS = "a method of transformers' own", "texts whose questions are not the target's own"
OF_TEXT = ("--tokenizer", "--window", "--vocab")
WRITES = ("--prompts", "--length")
OF_POSITIONS = ("--positions", "--target-key", "--draft-key", "--kind")
"""Of `otspec affinity`."""
OF_POSITION, OF_PATHS = ("--scheme", "--n", "--drafter", "--uniforms"), "a rule for paths"
"""Of `otspec audit`."""
INSTEAD = ("--replay", "--list", "--show", "--power")
"""What `otspec claims` does in place of a check."""

CONFLICTS = (
    # affinity
    *(Conflict(name, TEXTS, "it does not apply to text", "leave it out") for name in OF_POSITIONS),
    *(Conflict(name, POSITIONS, "it does not apply to positions", "leave it out") for name in OF_TEXT),
    # audit
    *(Conflict(name, OF_PATHS, "drafts are paths here", "shape them by --paths and --depth") for name in OF_POSITION),
    *(Conflict("--branching", name, "both set the shape of the drafts") for name in ("--paths", "--depth")),
    # claims
    *(Conflict(one, other, "two things to do", "pass one at a time") for one, other in combinations(INSTEAD, 2)),
    *(Conflict("--markdown", one, "it reports a check, and nothing is checked") for one in INSTEAD[:3]),
    *(Conflict("--json", one, "it holds what a check finds, or --list") for one in ("--replay", "--show")),
    # decode
    Conflict("--transcript", NO_STEPS, "it does not report its steps", "leave out --transcript"),
    Conflict("--logprobs", NO_STEPS, "it returns no log-probabilities", "leave out --logprobs"),
    # texts, train
    Conflict(
        "--ask-temperature",
        NO_QUESTIONS,
        "questions are written by a chat template alone, without --prompts",
        "leave it out",
    ),
    Conflict("--from", "--draft", "both name the draft model that learns"),
    Conflict("--from", "--draft-tokens", "a draft model that learns on has its tokens"),
    *(Conflict(one, TEXT_FILE, "its texts are written already", f"leave out {one}") for one in WRITES),
    Conflict("--ahead", ONE_AHEAD, "it learns one draft at a time, whatever comes after it", "leave out --ahead"),
    Conflict("--draft", OF_TARGET, "it is made of its target, and no draft model learns", "leave out --draft"),
    Conflict("--draft-tokens", ALL_TOKENS, "it drafts all tokens", "leave it out, and decode with --drafter fr"),
)

"""DynaSpec [zhang2025dynaspec], shortlists of tokens that depend on the context: its claims, by section."""

from otspec.proofs_check.claims import Source, Unchecked, claims_of
from otspec.proofs_check.dynaspec import drafting, shortlists, speedup, tables

KEY = "zhang2025dynaspec"

SOURCE = Source(
    "DynaSpec: Context-aware Dynamic Speculative Sampling for Large-Vocabulary Language Models",
    KEY,
    claims_of(speedup, shortlists, drafting, tables),
    (
        Unchecked(
            "BCE-with-top-k routing maximises a lower bound on retained target mass.",
            f"{KEY}, section 6",
            "The bound is not given.  Hard labels do not see mass: a cluster of mass 0.01 and one of 0.9 have the same "
            "label when both hold one of the L positive tokens, and tie at k = 1.",
        ),
        Unchecked(
            "The loop and the budget of Algorithm 1 (lines 1 and 7).",
            KEY,
            "By inspection: line 7 divides by an undefined i (the text's t is the loop variable j) and has no floor; "
            "'for j = 0 to gamma' takes gamma + 1 draft steps where eq. (2) counts gamma.",
        ),
        Unchecked(
            "The head costs (M + |V_S|) d instead of |V| d; the router runs in the shadow of the drafter.",
            f"{KEY}, sections 1 and 4.3",
            "The first is a definition (and less exactly when M + |V_S| < |V|); the second is a matter of hardware.",
        ),
        Unchecked(
            "Mean acceptance lengths and shortlist sizes of Tables 1 and 2 and Figure 2.",
            f"{KEY}, section 5",
            "Measured on models and data.  k_max is not given.  A mean of 31,739 tokens for PA-FR needs k_max well "
            "above that: Table 2 compares budgets of about the same mean, not of the same k_max.",
        ),
    ),
)

__all__ = ["SOURCE"]

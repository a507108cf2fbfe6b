"""The papers' claims as executable checks: numeric evidence with a worst case to replay, not proof.

`claims` makes claims of functions, `search` looks for instances, `evidence` is what was found and `report` prints it;
`power` and `power_report` check whether a search would notice.  The claims stand in one module, or package, per source;
preprints share a package.  `printed` has the arithmetic of printed tables, which are in printed.toml.
"""

from otspec.proofs_check import dynaspec, global_resolution, notes, own, preprints, rdk, steering
from otspec.proofs_check.claims import Claim, Mutation, Source, Unchecked, Verdict, claim, inequality
from otspec.proofs_check.evidence import Evidence, check
from otspec.proofs_check.power import Challenge, challenges
from otspec.proofs_check.search import Descent, Exhaustive, from_plain, plain

SOURCES: tuple[Source, ...] = (
    global_resolution.SOURCE,
    dynaspec.SOURCE,
    notes.SOURCE,
    steering.SOURCE,
    rdk.SOURCE,
    *preprints.SOURCES,
    own.SOURCE,
)
"""Everything that is checked, source by source."""

CLAIMS = {claim.id: claim for source in SOURCES for claim in source.claims}
"""Every claim by its id."""

__all__ = [
    "CLAIMS",
    "SOURCES",
    "Challenge",
    "Claim",
    "Descent",
    "Evidence",
    "Exhaustive",
    "Mutation",
    "Source",
    "Unchecked",
    "Verdict",
    "challenges",
    "check",
    "claim",
    "from_plain",
    "inequality",
    "plain",
]

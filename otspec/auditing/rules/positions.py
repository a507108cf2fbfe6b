"""A rule that verifies the drafts of one position, with its drafts, as an audit calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from otspec.auditing.rules import instances as families
from otspec.auditing.rules.answers import Invalid, Refused, as_array, as_integers, as_laws, as_tokens, described, fault
from otspec.auditing.rules.case import MAX_NUMBERS, TEXT, Law, Sample, draw_each
from otspec.auditing.rules.forms import Form, form_of
from otspec.auditing.rules.position_cases import MAX_TUPLES, Drafting, PositionCase
from otspec.auditing.rules.subject import Subject, Wording
from otspec.auditing.settings import AuditSettings
from otspec.catalogue import as_solver
from otspec.errors import MissingExtra, ProblemError
from otspec.extras import require
from otspec.laws import FloatArray, IntArray, as_count
from otspec.plans import Plan
from otspec.problem import Problem
from otspec.results import SolveError
from otspec.solver import Solver, Stopped
from otspec.solving import solve

MOST_UNIFORMS = 1 << 20
"""Uniforms of one call of a rule: thousands of calls are made."""


class Position(Subject[PositionCase]):
    """A rule for one position, with its drafts; `otspec.audit` explains the arguments.

    Raises
    ------
    ProblemError
        If an argument is out of range, or the form of the rule is not clear.
    UnknownSolver
        If the rule is a string that names no solver.
    MissingExtra
        If the rule takes torch tensors, and torch is not installed.
    """

    wording = Wording(
        case="instance",
        right="the output law is p",
        right_so_far="the output law is p on {done}",
        off="the output law is off p",
    )

    def __init__(
        self,
        rule: Any,
        scheme: Any,
        *,
        form: str | None,
        drafter: Any,
        shown: Callable[[FloatArray], Any] | None,
        instances: Sequence[tuple[Any, Any]] | None,
        logits: Sequence[tuple[Any, Any]] | None,
        uniforms: int | None,
        settings: AuditSettings,
    ) -> None:
        super().__init__(rule, settings)
        self._n = settings.n
        self._coins = as_count("uniforms", 2 * self._n + 1 if uniforms is None else uniforms)
        if self._coins > MOST_UNIFORMS:
            raise ProblemError(f"uniforms is {self._coins}; an audit hands a rule at most {MOST_UNIFORMS:,}")
        self.form = form_of(rule, form)
        self._rule = as_solver(rule) if isinstance(rule, str) or hasattr(rule, "supports") else rule
        self._plans: dict[PositionCase, Plan] = {}
        self.simultaneous = self.form in (Form.TORCH, Form.TORCH_UNIFORMS)
        self._torch = require("torch") if self.simultaneous else None
        self._generator: Any = None
        self._drafting = Drafting.of(scheme, drafter, shown)
        self._drafter = self._drafting.drafter
        self._begin = self._starts(self._rule, self._drafter)
        self.user_cases = [self._drafting.case(instance, self._n) for instance in families.from_user(instances, logits)]
        self.drafts = self._drafting.label
        self.own_drafter = self._drafter is not None
        self.has_law = self.form in (Form.LAW, Form.PLAN) and not self.own_drafter

    @property
    def not_enumerable(self) -> str:
        """Why an exact audit is not possible, and what would make it so."""
        return (
            f"a rule of form {self.form} cannot be enumerated here: that takes a conditional law (form law or plan) "
            f"and drafts of a known scheme, at most {MAX_TUPLES:,} tuples of them; leave method out"
        )

    def cases(self, seed: int, *, sampled: bool) -> list[PositionCase]:
        """The audit's own instances that the scheme can draw n drafts from."""
        family = families.to_sample if sampled else families.small
        return self._drafting.cases(family(seed, self._n, self._n if self._drafting.rows else None), self._n)

    def prepare(self, case: PositionCase) -> None:
        """Solve the case, for a rule that is a solver.

        Raises
        ------
        Refused
            If it refuses the case, by a status or an error of otspec.
        Invalid
            If it raises anything else.
        OutOfTime
            If the time is up.
        """
        if self.form is not Form.PLAN or case in self._plans:
            return
        self._check_time()
        problem = Problem(case.p, case.declared)
        try:
            plan = self._solved(problem)
        except MissingExtra:
            raise
        except (ProblemError, SolveError, Stopped) as error:
            raise Refused(str(error), case) from error
        except Exception as error:
            raise Invalid(f"gives no plan, but raises {described(error)}", None, case) from error
        if not all(hasattr(plan, name) for name in ("sample", "conditional")):
            raise Invalid(
                f"gives no plan, but {type(plan).__name__}; return one, as otspec.solve(problem).plan is", None, case
            )
        self._plans[case] = plan

    def _solved(self, problem: Problem) -> Plan:
        if not isinstance(self._rule, Solver):
            plan: Plan = self._rule(problem)
            return plan
        result = solve(problem, self._rule, strict=False)
        if result.plan is None:
            raise Stopped(result.status, result.message)
        return result.plan

    def law(self, case: PositionCase) -> Law:
        """Sum the law over all tuples of drafts."""
        assert case.drafted is not None
        output, membership, reported = np.zeros(case.vocab), 0.0, 0.0
        says = True
        tuples, chances = case.drafted.support()
        for part in _parts(len(tuples), case.vocab):
            drafts, chance = tuples[part], chances[part]
            laws, accepted = self._laws(case, drafts, texts=False)
            output += chance @ laws
            drafted = np.zeros(laws.shape, dtype=bool)
            np.put_along_axis(drafted, drafts, True, axis=1)
            membership += float(chance @ np.where(drafted, laws, 0.0).sum(axis=1))
            says = says and accepted is not None
            reported += 0.0 if accepted is None else float(chance @ accepted)
        return Law(output, membership, reported if says else None, case.drafts_tv)

    def sample(self, cases: Sequence[PositionCase], texts: int) -> list[Sample]:
        """So many texts of each case; a rule of batches has instances over one vocabulary take turns in each."""
        with np.errstate(all="ignore"):
            if not self.simultaneous:
                return [self._one_by_one(case, texts) for case in cases]
            alike: dict[int, list[int]] = {}
            for place, case in enumerate(cases):
                alike.setdefault(case.vocab, []).append(place)
            found: dict[int, Sample] = {}
            for places in alike.values():
                found |= zip(places, self._together([cases[place] for place in places], texts), strict=True)
            return [found[place] for place in range(len(cases))]

    # --- one tuple of drafts a call

    def _one_by_one(self, case: PositionCase, texts: int) -> Sample:
        drafts = self._ahead(case, texts).reshape(texts * TEXT, case.n)
        tokens = np.empty(len(drafts), dtype=np.int64)
        accepted: IntArray | None = np.empty(len(drafts), dtype=np.int64)
        for part in _parts(len(drafts), case.vocab):
            tokens[part], some = self._tokens(case, drafts[part])
            if accepted is not None and some is not None:
                accepted[part] = some
            else:
                accepted = None
        return self._sample(case, drafts, tokens, accepted)

    def _tokens(self, case: PositionCase, drafts: IntArray) -> tuple[IntArray, IntArray | None]:
        """An output for each tuple of drafts, shape (rows, n), and the accepted draft; both of shape (rows,)."""
        if self.form is Form.LAW:
            laws, _ = self._laws(case, drafts, texts=True)
            return draw_each(np.cumsum(np.maximum(laws, 0.0), axis=1), self._rng), None
        coins: Iterable[Any] = repeat(self._rng)
        if self.form is Form.UNIFORMS:
            coins = self._rng.random((len(drafts), self._coins))
        answers, error = self._calls(case, drafts, coins)
        found = as_tokens(answers, case, drafts)
        if error is not None:
            raise Invalid(f"raises {described(error)}", drafts[len(answers)], case) from error
        return found

    def _laws(self, case: PositionCase, drafts: IntArray, *, texts: bool) -> tuple[FloatArray, FloatArray | None]:
        """Laws of the output, shape (rows, V), and P(a draft is accepted), shape (rows,), given drafts (rows, n)."""
        answers, error = self._calls(case, drafts, texts=texts)
        found = as_laws(answers, case, drafts, self._tol)
        if error is not None:
            raise Invalid(f"raises {described(error)}", drafts[len(answers)], case) from error
        return found

    def _calls(
        self, case: PositionCase, drafts: IntArray, *coins: Iterable[Any], texts: bool = True
    ) -> tuple[list[Any], Exception | None]:
        """What the rule returns for each tuple of drafts; each call has copies of its own, and may write to them."""
        handed = drafts.copy()

        def draft(number: int) -> None:
            drafts[number] = handed[number] = self._drafted(case)

        how = (self._begin if texts else (), None if self._drafter is None else draft)
        if self.form is Form.PLAN:
            plan = self._plans[case]
            return self._answers(plan.sample if coins else plan.conditional, zip(handed, *coins, strict=False), *how)
        p, q = (np.repeat(law[None], len(drafts), axis=0) for law in (case.p, case.shown))
        found = self._answers(self._rule, zip(p, q, handed, *coins, strict=False), *how)
        for name, original, after in (("p", case.p, p), ("q", case.shown, q), ("drafts", drafts, handed)):
            if name not in self.mutations and (after != original).any():
                self.mutations[name] = case
        return found

    # --- drafts

    def _ahead(self, case: PositionCase, texts: int) -> IntArray:
        """Drafts of so many texts, shape (texts, 2, n); those of a drafter of the user's are yet to be filled in."""
        if case.drafted is None:
            return np.zeros((texts, TEXT, case.n), dtype=np.int64)
        return case.drafted.sample(self._own, texts * TEXT).reshape(texts, TEXT, case.n)

    def _drafted(self, case: PositionCase) -> IntArray:
        """A tuple of the user's drafter, shape (n,).

        Raises
        ------
        Invalid
            If what it returns is none.
        """
        assert self._drafter is not None
        try:
            answer: Any = self._drafter(case.q.copy(), case.n, self._own)
        except Exception as error:
            raise Invalid(f"the drafter raises {described(error)}", None, case) from error
        drafts = as_array(answer)
        if drafts.shape != (case.n,) or not np.issubdtype(drafts.dtype, np.integer):
            raise Invalid(f"the drafter returns {answer!r}; drafts are {case.n} token ids", None, case)
        if drafts.min() < 0 or drafts.max() >= case.vocab:
            raise Invalid(
                f"the drafter returns {drafts.tolist()}; token ids run from 0 to {case.vocab - 1}", None, case
            )
        return drafts

    def _sample(self, case: PositionCase, drafts: IntArray, tokens: IntArray, accepted: IntArray | None) -> Sample:
        """The draws of one case, from drafts of shape (rows, n) and outputs of shape (rows,)."""
        hits = (drafts == tokens[:, None]).any(axis=1)
        return Sample(
            tokens.reshape(-1, TEXT),
            np.bincount(hits, minlength=2),
            None if accepted is None else int((accepted >= 0).sum()),
            # Drafts that depend on those before are the pair test's business.
            case.places_of(drafts[::TEXT]) if self.own_drafter else None,
        )

    # --- many rows a call

    def _together(self, cases: list[PositionCase], texts: int) -> list[Sample]:
        """So many texts of each case, in batches of texts of all of them, step by step."""
        drafts = np.stack([self._ahead(case, texts) for case in cases], axis=1)
        tokens, accepted = (np.empty((texts, len(cases), TEXT), dtype=np.int64) for _ in range(2))
        says = True
        most = max(1, MAX_NUMBERS // (len(cases) * cases[0].vocab))
        for first in range(0, texts, most):
            part = slice(first, min(first + most, texts))
            owner = np.tile(np.arange(len(cases)), part.stop - part.start)
            for start in self._begin:
                start()
            for step in range(TEXT):
                rows = drafts[part, :, step].reshape(owner.size, -1)
                if self._drafter is not None:
                    rows = np.stack([self._drafted(cases[place]) for place in owner])
                    drafts[part, :, step] = rows.reshape(-1, len(cases), rows.shape[1])
                drawn, some = self._rows(cases, owner, rows)
                tokens[part, :, step] = drawn.reshape(-1, len(cases))
                says = says and some is not None
                accepted[part, :, step] = -1 if some is None else some.reshape(-1, len(cases))
        return [
            self._sample(
                case,
                drafts[:, place].reshape(-1, case.n),
                tokens[:, place].ravel(),
                accepted[:, place].ravel() if says else None,
            )
            for place, case in enumerate(cases)
        ]

    def _rows(
        self, cases: Sequence[PositionCase], owner: IntArray, drafts: IntArray
    ) -> tuple[IntArray, IntArray | None]:
        """Draw the outputs of one batch of B rows: row b belongs to ``cases[owner[b]]`` and has drafts (n,).

        Tokens and accepted drafts have shape (B,); the latter are None if the rule does not report them.
        """
        assert self._torch is not None
        if self._generator is None:
            self._generator = self._torch.Generator().manual_seed(int(self._rng.integers(2**62)))
        arrays = [np.stack([case.p for case in cases])[owner], np.stack([case.shown for case in cases])[owner], drafts]
        tensors = [self._torch.tensor(array) for array in arrays]
        coins: Any = self._generator
        if self.form is Form.TORCH_UNIFORMS:
            coins = self._torch.tensor(self._rng.random((len(owner), self._coins)))
        answers, error = self._answers(self._rule, [(*tensors, coins)])
        if error is not None:
            raise Invalid(f"raises {described(error)}", None) from error
        for name, array, tensor in zip(("p", "q", "drafts"), arrays, tensors, strict=True):
            if name not in self.mutations and not np.array_equal(array, tensor.detach().numpy()):
                self.mutations[name] = cases[0]
        (answer,) = answers
        values, reported = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        tokens = as_integers(values, "tokens", len(owner))
        accepted = None if reported is None else as_integers(reported, "accepted drafts", len(owner))
        if wrong := fault(tokens, accepted, cases[0].vocab, drafts):
            raise Invalid(wrong[1], drafts[wrong[0]], cases[owner[wrong[0]]])
        return tokens, accepted


def _parts(rows: int, vocab: int) -> list[slice]:
    """Whole texts, as many as a batch of calls may hold probabilities for."""
    most = max(MAX_NUMBERS // (TEXT * vocab), 1) * TEXT
    return [slice(first, min(first + most, rows)) for first in range(0, rows, most)]

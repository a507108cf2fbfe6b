"""Rules for one position as the audit calls them: one tuple of drafts at a time, or a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from otspec.auditing.answers import Invalid, Refused, checked_law
from otspec.auditing.calling import CalledRule, described
from otspec.auditing.deadline import Deadline
from otspec.auditing.positions.answers import LawAnswer, TokenAnswer, as_acceptance, as_integers, as_token, check
from otspec.auditing.positions.cases import PositionCase
from otspec.auditing.positions.forms import Form, detect
from otspec.catalogue import get
from otspec.errors import MissingExtra, ProblemError
from otspec.extras import require
from otspec.laws import FloatArray, IntArray, draw
from otspec.plans import Plan
from otspec.problem import Problem
from otspec.results import SolveError
from otspec.solver import Solver, Stopped
from otspec.solving import solve


class _Inputs:
    """The copies of p and q that a rule is handed, and whether it left them unchanged."""

    def __init__(self, *arrays: FloatArray) -> None:
        self.originals = arrays
        self.copies = [array.copy() for array in arrays]
        self._bytes = [array.tobytes() for array in arrays]

    def mutated(self) -> list[str]:
        """Names of the arrays that the rule changed; they are restored."""
        names = []
        for place, before in enumerate(self._bytes):
            if self.copies[place].tobytes() != before:
                names.append("pq"[place])
                self.copies[place] = self.originals[place].copy()
        return names


class Rule(CalledRule):
    """A rule that is called with one tuple of drafts at a time.

    Parameters
    ----------
    call : callable or Solver
        The user's rule.
    form : Form
    coins : int
        Uniforms for each call of a rule that takes them.
    tol : float
        How far the total of a law may be off 1, and an entry below 0.
    deadline : Deadline
        The rule is not called after it.
    """

    def __init__(self, call: Any, form: Form, coins: int, tol: float, deadline: Deadline) -> None:
        super().__init__(call, deadline)
        self.form = form
        self._coins = coins
        self._tol = tol
        self._inputs: dict[PositionCase, _Inputs] = {}
        self._plans: dict[PositionCase, Plan] = {}

    @property
    def has_law(self) -> bool:
        """Whether it gives the exact law of the output."""
        return self.form in (Form.LAW, Form.PLAN)

    def prepare(self, case: PositionCase) -> None:
        """Solve the case, for a rule that is a solver.

        Raises
        ------
        Refused
            If it says that it does not take the case, by a status or an error of otspec.
        Invalid
            If it raises anything else.
        """
        if self.form is not Form.PLAN or case in self._plans:
            return
        self._deadline.check()
        problem = Problem(case.p, case.declared)
        try:
            plan = self._solve(problem)
        except MissingExtra:
            raise
        except (ProblemError, SolveError, Stopped) as error:
            raise Refused(str(error), case) from error
        except Exception as error:
            raise Invalid(f"gives no plan, but raises {described(error)}", None, case) from error
        self._plans[case] = plan

    def _solve(self, problem: Problem) -> Plan:
        if not isinstance(self._call, Solver):
            plan: Plan = self._call(problem)
            return plan
        result = solve(problem, self._call, strict=False)
        if result.plan is None:
            raise Stopped(result.status, result.message)
        return result.plan

    def law(self, case: PositionCase, drafts: IntArray) -> LawAnswer:
        """Exact law of the output given the drafts, shape (n,).

        Raises
        ------
        Invalid
            If it is not one.
        """
        if self.form is Form.PLAN:
            answer = self._try(lambda: self._plans[case].conditional(drafts), drafts, case)
        else:
            answer = self._ask(case, drafts)
        says = isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) == 1
        values, accepted = answer if says else (answer, None)
        law = checked_law(values, (case.vocab,), case, drafts, self._tol)
        return LawAnswer(law, None if accepted is None else as_acceptance(accepted, law, case, drafts, self._tol))

    def sample(self, case: PositionCase, drafts: IntArray, rng: np.random.Generator) -> TokenAnswer:
        """Draw an output given the drafts, shape (n,).

        Raises
        ------
        Invalid
            If it is not a token.
        """
        if self.form is Form.LAW:
            return TokenAnswer(int(draw(np.maximum(self.law(case, drafts).law, 0.0), rng)), None)
        if self.form is Form.PLAN:
            answer: Any = self._try(lambda: self._plans[case].sample(drafts, rng), drafts, case)
        else:
            answer = self._ask(case, drafts, rng if self.form is Form.RNG else rng.random(self._coins))
        return as_token(answer, case, drafts)

    def _ask(self, case: PositionCase, drafts: IntArray, *coins: Any) -> Any:
        inputs = self._inputs.get(case)
        if inputs is None:
            inputs = self._inputs[case] = _Inputs(case.p, case.shown)
        handed = drafts.copy()
        answer = self._try(lambda: self._call(*inputs.copies, handed, *coins), drafts, case)
        for name in inputs.mutated():
            self.mutations.setdefault(name, case)
        if handed.tobytes() != drafts.tobytes():
            self.mutations.setdefault("drafts", case)
        return answer


class BatchedRule(CalledRule):
    """A rule on torch tensors that is called with many rows at a time, of several instances.

    Parameters
    ----------
    call : callable
        The user's rule.
    form : Form
    coins : int
        Uniforms for each row, of a rule that takes them.
    deadline : Deadline
        The rule is not called after it.
    """

    has_law = False
    """A batched rule gives tokens."""

    def __init__(self, call: Any, form: Form, coins: int, deadline: Deadline) -> None:
        super().__init__(call, deadline)
        self.form = form
        self._coins = coins
        self._torch = require("torch")
        self._generator: Any = None

    def prepare(self, case: PositionCase) -> None:
        """Do nothing: a batched rule is no solver."""

    def sample_rows(
        self, cases: Sequence[PositionCase], owner: IntArray, drafts: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray | None]:
        """Draw the outputs of one batch.

        Parameters
        ----------
        cases : sequence of PositionCase
            Instances over vocabularies of one size.
        owner : ndarray of int, shape (B,)
            Row b belongs to ``cases[owner[b]]``.
        drafts : ndarray of int, shape (B, n)
        rng : numpy Generator
            Source of the uniforms, and of the seed of the torch generator.

        Returns
        -------
        tuple of ndarray
            Tokens, shape (B,), and accepted drafts, shape (B,), or None if the rule does not say them.

        Raises
        ------
        Invalid
            If the rule returns anything else.
        """
        torch = self._torch
        if self._generator is None:
            self._generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        arrays = [np.stack([case.p for case in cases])[owner], np.stack([case.shown for case in cases])[owner], drafts]
        tensors = [torch.tensor(array) for array in arrays]
        coins: Any = self._generator
        if self.form is Form.TORCH_UNIFORMS:
            coins = torch.tensor(rng.random((len(owner), self._coins)))
        answer = self._try(lambda: self._call(*tensors, coins), None, None)
        for name, array, tensor in zip(("p", "q", "drafts"), arrays, tensors, strict=True):
            if name not in self.mutations and not np.array_equal(array, tensor.numpy()):
                self.mutations[name] = cases[0]
        tokens, accepted = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        tokens = as_integers(tokens, "tokens", len(owner))
        accepted = None if accepted is None else as_integers(accepted, "accepted drafts", len(owner))
        named = [None] * len(owner) if accepted is None else accepted.tolist()
        for token, draft, place, row in zip(tokens.tolist(), named, owner.tolist(), drafts, strict=True):
            check(TokenAnswer(token, draft), cases[place], row)
        return tokens, accepted


def rule_of(call: Any, form: str | None, coins: int, tol: float, deadline: Deadline) -> Rule | BatchedRule:
    """Bring the user's rule to a common form.

    Raises
    ------
    ProblemError
        If its form is unknown or cannot be told.
    UnknownSolver
        If it is the name of no solver.
    """
    if form is not None and not (isinstance(form, str) and form in set(Form)):
        raise ProblemError(f"form is {form!r}; known: {', '.join(Form)}")
    kind = detect(call) if form is None else Form(form)
    if isinstance(call, str):
        call = get(call)
    if kind in (Form.TORCH, Form.TORCH_UNIFORMS):
        return BatchedRule(call, kind, coins, deadline)
    return Rule(call, kind, coins, tol, deadline)

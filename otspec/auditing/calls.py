"""Rules as the audit calls them: one tuple of drafts at a time, or a batch; law of the output, or a draw of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from otspec.auditing.answers import (
    Given,
    Invalid,
    Outcome,
    Refused,
    as_acceptance,
    as_integers,
    as_law,
    as_outcome,
    check,
)
from otspec.auditing.cases import Case
from otspec.auditing.deadline import Deadline
from otspec.auditing.forms import Form, detect
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
    """The copies of p and q that a rule is handed, and whether it left them alone."""

    def __init__(self, *arrays: FloatArray) -> None:
        self.originals = arrays
        self.copies = [array.copy() for array in arrays]
        self._bytes = [array.tobytes() for array in arrays]

    def mutated(self) -> list[str]:
        """Names of what the rule changed; it is then restored."""
        names = []
        for place, before in enumerate(self._bytes):
            if self.copies[place].tobytes() != before:
                names.append("pq"[place])
                self.copies[place] = self.originals[place].copy()
        return names


class Rule:
    """A rule that is called with one tuple of drafts at a time.

    Parameters
    ----------
    call : callable or Solver
        The user's.
    form : Form
    coins : int
        Uniforms for each call of a rule that takes them.
    tol : float
        How far a law may be off 1 in total, or below 0.
    deadline : Deadline
        After which the call is not made.
    """

    def __init__(self, call: Any, form: Form, coins: int, tol: float, deadline: Deadline) -> None:
        self.form = form
        self.mutations: dict[str, Case] = {}
        """What the rule wrote to, and where that was first seen."""
        self._call = call
        self._coins = coins
        self._tol = tol
        self._deadline = deadline
        self._inputs: dict[Case, _Inputs] = {}
        self._plans: dict[Case, Plan] = {}

    @property
    def has_law(self) -> bool:
        """Whether it gives the exact law of the output."""
        return self.form in (Form.LAW, Form.PLAN)

    def start(self, rng: np.random.Generator) -> None:
        """Begin a new text, if the rule cares."""
        start(self._call, rng)

    def prepare(self, case: Case) -> None:
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
            raise Invalid(f"gives no plan, but raises {said(error)}", None, case) from error
        self._plans[case] = plan

    def _solve(self, problem: Problem) -> Plan:
        if not isinstance(self._call, Solver):
            plan: Plan = self._call(problem)
            return plan
        result = solve(problem, self._call, strict=False)
        if result.plan is None:
            raise Stopped(result.status, result.message)
        return result.plan

    def law(self, case: Case, drafts: IntArray) -> Given:
        """Exact law of the output given the drafts.

        Raises
        ------
        Invalid
            If it is not one.
        """
        if self.form is Form.PLAN:
            answer = self._try(case, drafts, lambda: self._plans[case].conditional(drafts))
        else:
            answer = self._ask(case, drafts)
        says = isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) == 1
        values, accepted = answer if says else (answer, None)
        law = as_law(values, case, drafts, self._tol)
        return Given(law, None if accepted is None else as_acceptance(accepted, law, case, drafts, self._tol))

    def sample(self, case: Case, drafts: IntArray, rng: np.random.Generator) -> Outcome:
        """Draw an output.

        Raises
        ------
        Invalid
            If it is not a token.
        """
        if self.form is Form.LAW:
            return Outcome(int(draw(np.maximum(self.law(case, drafts).law, 0.0), rng)), None)
        if self.form is Form.PLAN:
            answer: Any = self._try(case, drafts, lambda: self._plans[case].sample(drafts, rng))
        else:
            answer = self._ask(case, drafts, rng if self.form is Form.RNG else rng.random(self._coins))
        return as_outcome(answer, case, drafts)

    def _ask(self, case: Case, drafts: IntArray, *coins: Any) -> Any:
        inputs = self._inputs.get(case)
        if inputs is None:
            inputs = self._inputs[case] = _Inputs(case.p, case.shown)
        handed = drafts.copy()
        answer = self._try(case, drafts, lambda: self._call(*inputs.copies, handed, *coins))
        for name in inputs.mutated():
            self.mutations.setdefault(name, case)
        if handed.tobytes() != drafts.tobytes():
            self.mutations.setdefault("drafts", case)
        return answer

    def _try(self, case: Case, drafts: IntArray, call: Callable[[], Any]) -> Any:
        self._deadline.check()
        try:
            return call()
        except Exception as error:
            raise Invalid(f"raises {said(error)}", drafts, case) from error


class BatchedRule:
    """A rule on torch tensors that is called with many rows at a time, of several instances."""

    has_law = False

    def __init__(self, call: Any, form: Form, coins: int, deadline: Deadline) -> None:
        self.form = form
        self.mutations: dict[str, Case] = {}
        self._call = call
        self._coins = coins
        self._deadline = deadline
        self._torch = require("torch")
        self._generator: Any = None

    def start(self, rng: np.random.Generator) -> None:
        """Begin a new text, if the rule cares."""
        start(self._call, rng)

    def prepare(self, case: Case) -> None:
        """Nothing to prepare."""

    def sample_rows(
        self, cases: Sequence[Case], owner: IntArray, drafts: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray | None]:
        """Tokens, shape (B,), and accepted drafts, if the rule says, of one call; row b belongs to cases[owner[b]].

        Raises
        ------
        Invalid
            If they are not.
        """
        self._deadline.check()
        torch = self._torch
        if self._generator is None:
            self._generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        arrays = [np.stack([case.p for case in cases])[owner], np.stack([case.shown for case in cases])[owner], drafts]
        tensors = [torch.tensor(array) for array in arrays]
        coins: Any = self._generator
        if self.form is Form.TORCH_UNIFORMS:
            coins = torch.tensor(rng.random((len(owner), self._coins)))
        try:
            answer = self._call(*tensors, coins)
        except Exception as error:
            raise Invalid(f"raises {said(error)}", None) from error
        for name, array, tensor in zip(("p", "q", "drafts"), arrays, tensors, strict=True):
            if name not in self.mutations and not np.array_equal(array, tensor.numpy()):
                self.mutations[name] = cases[0]
        tokens, accepted = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        tokens = as_integers(tokens, "tokens", len(owner))
        accepted = None if accepted is None else as_integers(accepted, "accepted drafts", len(owner))
        named = [None] * len(owner) if accepted is None else accepted.tolist()
        for token, draft, place, row in zip(tokens.tolist(), named, owner.tolist(), drafts, strict=True):
            check(Outcome(token, draft), cases[place], row)
        return tokens, accepted


def start(call: Any, rng: np.random.Generator) -> None:
    """Tell a rule or a drafter that a new text begins, if it has a method `start`."""
    begin = getattr(call, "start", None)
    if begin is not None:
        begin(rng)


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


def said(error: Exception) -> str:
    """What a rule raised, in words."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

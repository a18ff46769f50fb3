"""Where code may make generators and noise sources of its own, and a search for those that may not.

Noise must come from the source that is handed in. The tape watches what runs do; runs reach some
of the code, so `own_randomness` reads its source as well: every use of a generator, of the
operating system's randomness, of what makes noise sources, and of public coins, by the function in
which it stands. Whatever is not listed in `ALLOWED` breaks the promise.

Two kinds of uses are listed: public randomness from public seeds (feature maps, points to integrate
over, the public coins), and sources made where the caller hands in none. A run may draw from
the former alone, and the tape checks that it does so in the same way for every person.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_GENERATOR, _TOKEN, _ENTROPY = "numpy.random.default_rng", "secrets.token_hex", "os.urandom"
_COINS = "discreet.learners.messages.public_uniforms"
_HALTON, _SOBOL = "scipy.stats.qmc.Halton", "scipy.stats.qmc.Sobol"
_SIMULATED, _SECURE = "discreet.privacy.SimulatedNoise", "discreet.privacy.SecureNoise"
_OWN = "a noise source of its own"
# By what is used, the functions that may.
ALLOWED: dict[str, frozenset[str]] = {
    what: frozenset(f"discreet.{site}" for site in sites)
    for what, sites in {
        _GENERATOR: (
            "kernels.base public_points",
            "kernels.nystrom FiniteFeatures.error_points",
            "learners.glm.learner PrivateGLM._publish",
            "learners.glm.learner score_values",
            "learners.gp_ucb.public.learner PublicGPUCB._policy",
            "learners.kernel.features integration_points",
            "learners.kernel.joint JointKernel._points",
            "learners.kernel.joint JointKernel._publish",
            "learners.kernel.joint JointKernel._predictive",
            "learners.kernel.joint JointKernel._value_posterior",
            "learners.kernel.learner KernelLearner._learn",
            "learners.kernel.learner KernelLearner._publish_source",
            "learners.kernel.learner LocalKernel._predictive",
            "learners.kernel.learner LocalKernel._publish",
            "learners.kernel.learner LocalKernel._value_posterior",
            "learners.values ValuePosterior.choice",
            "outsourcing.curator Curator.propose",
            "outsourcing.curator Proposal.named",
            "outsourcing.modeler Modeler._choose",
            "papers.ma2025.learners.gradients.models NetworkModel.start",
            "privacy.noise SimulatedNoise.__init__",
        ),
        "secrets.SystemRandom": ("learners.shuffler Shuffler._order",),
        _HALTON: (
            "learners.epochs.features ContextDistribution.usual",
            "learners.partition.tree spread_within",
        ),
        _SOBOL: (
            "kernels.base public_points",
            "learners.kernel.features sobol_points",
        ),
        _COINS: (
            "learners.epochs.policy EpochPolicy._choose",
            "learners.glm.policy ScorePolicy.reports_spread",
            "learners.gp_ucb.sets.policy SetPolicy._explore",
            "learners.gp_ucb.sets.policy SetPolicy.scores",
            "learners.gp_ucb.public.policy PublicPolicy.places",
            "learners.kernel.policy FunctionPolicy.function_of",
            "learners.kernel.policy KernelPolicy.picked",
            "learners.policy ArmPolicy._drawn",
            "learners.partition.policy PartitionPolicy.offered",
            "learners.references.uniform _places",
            "learners.references.uniform UniformPointPolicy._draw",
            "papers.ma2025.learners.gradients.policy GradientPolicy.lots",
            "papers.ma2025.learners.published_partition EliminationLearner._longest_edges",
            "papers.ma2025.learners.published_partition EliminationPolicy._choose",
        ),
        _SIMULATED: (
            "estimator _Fitted.__init__",
            "outsourcing.mechanisms AnswerNoise.draw",
            "service.server.openapi examples",
        ),
        _SECURE: (
            "outsourcing.mechanisms AnswerNoise.draw",
            "privacy.noise gaussian_multiplier",
            "privacy.noise laplace_epsilon",
        ),
        _TOKEN: ("learners.base Learner.__init__",),
        _ENTROPY: ("outsourcing.curator Proposal.named", "privacy.noise SecureNoise.keys"),
    }.items()
}
# Sources that the audit cannot hand in: answers and devices draw when they are asked for, a service
# makes its learners anew, and draws reports of no one, for their length and in place of others.
SOURCES = frozenset(
    {
        "discreet.service.client.device _drawn",
        "discreet.estimator _Fitted.__init__",
        "discreet.outsourcing.mechanisms AnswerNoise.draw",
        "discreet.service.hpke report_bytes",
        "discreet.service.server.deployment noise_for",
        "discreet.service.server.ingest _opened",
    }
)
# What these draw besides SecureNoise is no noise: names, keys, and coins on a person's side.
SERVING = tuple(
    f"discreet.{room}" for room in ("atomic_files ", "estimator ", "search ", "service.")
)

# Code of the library that sees data and writes no file.
_PRIVATE = ("kernels.", "learners.", "papers.", "privacy.")

# What is looked for, with all that stands below it.
_RANDOM = (
    *("numpy.random", "random", "secrets", "uuid", "os.urandom", "os.getrandom", _COINS),
    "scipy.stats.qmc",
    *("torch.rand", "torch.randn", "torch.normal", "torch.bernoulli", "torch.Generator"),
)
# Types, which stand in annotations and are no draws.
_TYPES = ("numpy.random.Generator", "numpy.random.SeedSequence")
_WORDS = re.compile(r"random|secrets|uuid|rvs|qmc|torch|Noise\(|public_uniforms")
_AUDITED = ("kernels", "learners", "outsourcing", "privacy", "service")
_AUDITED_MODULES = ("estimator.py", "search.py")
_OF_PAPERS = "papers/*/learners"
# Code of others, in whose name their caller draws.
_LIBRARIES = frozenset(
    {*sys.stdlib_module_names, "numpy", "scipy", "sklearn", "pandas", "joblib", "opendp", "torch"}
    | {"sqlalchemy", "alembic", "psycopg", "cryptography", "fastapi", "starlette", "anyio"}
    | {"httpx2", "httpcore2", "uvicorn"}
)
_AUDIT = ("discreet.audit",)
# Its stand-in that passes a call on for the code under audit (surfaces.py).
_PASSED_ON = "alike"
# Modules that are being imported, and copies of generators, whose state is set afterwards.
_NO_DRAWS = ("importlib", "numpy.random._pickle")


class Use(NamedTuple):
    """One use of what draws.

    Attributes:
        site: module and function.
        line: in the module's file.
        what: is used.
    """

    site: str
    line: int
    what: str


def maker() -> str | None:
    """Module and function that called a stand-in of the tape; None for the audit's own."""
    frame = sys._getframe(3)
    while True:
        module = frame.f_globals.get("__name__", "")
        passed_on = frame.f_code.co_name == _PASSED_ON
        if module.startswith((*_AUDIT, *_NO_DRAWS)) and not passed_on:
            return None
        outside = module.partition(".")[0] not in _LIBRARIES and not passed_on
        if outside or frame.f_back is None:
            return f"{module} {frame.f_code.co_qualname.partition('.<')[0]}"
        frame = frame.f_back


def may_generate(site: str) -> bool:
    """Whether that function may make generators."""
    listed = any(site in ALLOWED[what] for what in (_GENERATOR, _HALTON, _SOBOL))
    return listed or site.startswith(SERVING)


def may_write(site: str) -> bool:
    """Whether that function may open files and connections to write."""
    room, _, rest = site.partition(".")
    return room in _LIBRARIES or (room == "discreet" and not rest.startswith(_PRIVATE))


def may_name(site: str) -> bool:
    """Whether that function may take names or keys from the operating system."""
    listed = site in ALLOWED[_TOKEN] or site in ALLOWED[_ENTROPY]
    return listed or site.startswith(SERVING)


@lru_cache
def library_randomness() -> str:
    """The first use in the library's own code that is not listed; empty if none."""
    return next((words for words in map(_unlisted, library_uses()) if words), "")


def library_uses() -> Iterator[Use]:
    """Every use in the library's own code."""
    root = Path(__file__).parents[1]
    rooms = [*map(root.joinpath, _AUDITED), *root.glob(_OF_PAPERS)]
    files = [*map(root.joinpath, _AUDITED_MODULES)]
    files += [path for room in rooms for path in room.rglob("*.py")]
    for path in sorted(files):
        parts = path.relative_to(root.parent).with_suffix("").parts
        module, text = ".".join(parts).removesuffix(".__init__"), path.read_text()
        if not module.startswith(_AUDIT) and _WORDS.search(text):
            body = ast.parse(text).body
            yield from _uses(module, body, body)


@lru_cache
def own_randomness(kind: type[Any]) -> str:
    """The first use in a class of others, and in what it names of its module; empty if none."""
    for each in kind.__mro__:
        module = sys.modules.get(each.__module__)
        if each.__module__.partition(".")[0] in {"discreet", *_LIBRARIES} or module is None:
            continue
        path = getattr(module, "__file__", None)
        if path is None:
            return f"the source of {each.__module__} cannot be read"
        body = ast.parse(Path(path).read_text()).body
        for use in _uses(each.__module__, body, _reached(body, each.__name__)):
            if words := _unlisted(use):
                return words
    return ""


def _reached(body: list[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements of a module that a name in it leads to."""
    named = {id(part): _bound(part) for part in body}
    wanted, reached = [name], dict[int, ast.stmt]()
    while wanted:
        word = wanted.pop()
        for part in body:
            if word in named[id(part)] and id(part) not in reached:
                reached[id(part)] = part
                wanted += [each.id for each in ast.walk(part) if isinstance(each, ast.Name)]
    return list(reached.values())


def _bound(part: ast.stmt) -> set[str]:
    """Names that a statement of a module gives a meaning."""
    if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {part.name}
    stored = (each for each in ast.walk(part) if isinstance(each, ast.Name))
    return {each.id for each in stored if isinstance(each.ctx, ast.Store)}


def _uses(module: str, body: list[ast.stmt], parts: Iterable[ast.stmt]) -> list[Use]:
    """Those in some statements of a module."""
    search = _Search(module, body)
    for part in parts:
        search.visit(part)
    return search.found


def _unlisted(use: Use) -> str:
    serving = use.site.startswith(SERVING) and use.what not in (_SIMULATED, _OWN)
    if serving or use.site in ALLOWED.get(use.what, ()):
        return ""
    return f"{use.site} (line {use.line}) draws from {use.what}, for which it is not listed"


class _Search(ast.NodeVisitor):
    """Collects the uses in parts of one module.

    Attributes:
        found: so far.
    """

    def __init__(self, module: str, body: list[ast.stmt]) -> None:
        self.found: list[Use] = []
        self._module = module
        self._classes: list[str] = []
        self._function = ""
        # Names that the module defines or imports, and where they come from.
        defined = [part for part in body if isinstance(part, ast.ClassDef | ast.FunctionDef)]
        self._origins = {part.name: f"{module}.{part.name}" for part in defined}
        for part in ast.walk(ast.Module(body, [])):
            if isinstance(part, ast.Import):
                for name in part.names:
                    origin = name.name if name.asname else name.name.partition(".")[0]
                    self._origins[name.asname or origin] = origin
            elif isinstance(part, ast.ImportFrom):
                for name in part.names:
                    self._origins[name.asname or name.name] = f"{part.module}.{name.name}"

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not self._function:
            self._classes.append(node.name)
        for base in node.bases:
            if self._origin(base).rpartition(".")[2] in ("SimulatedNoise", "SecureNoise"):
                self._note(node, _OWN)
        self.generic_visit(node)
        if not self._function:
            self._classes.pop()

    def _within(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self._function
        self._function = outer or ".".join((*self._classes, node.name))
        self.generic_visit(node)
        self._function = outer

    visit_FunctionDef = visit_AsyncFunctionDef = _within  # noqa: N815 (names of the base)

    def visit_Call(self, node: ast.Call) -> None:
        called = self._origin(node.func).replace("privacy.noise.", "privacy.")
        if called in (_SIMULATED, _SECURE):
            self._note(node, called)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "rvs":
            self._note(node, "rvs")
        if any(word.arg == "random_state" for word in node.keywords):
            self._note(node, "random_state")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._drawn_from(node):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._drawn_from(node)

    def _drawn_from(self, node: ast.expr) -> bool:
        """Whether an expression is the name of what is looked for; then it is noted."""
        origin = self._origin(node)
        used = any(f"{origin}.".startswith(f"{each}.") for each in _RANDOM)
        if used and origin not in _TYPES and origin != "numpy.random":
            self._note(node, origin)
        return used

    def _note(self, node: ast.expr | ast.stmt, what: str) -> None:
        site = f"{self._module} {self._function or '<module>'}"
        self.found.append(Use(site, node.lineno, what))

    def _origin(self, node: ast.expr) -> str:
        """Where a dotted name comes from; empty for anything else."""
        if isinstance(node, ast.Name):
            return self._origins.get(node.id, "")
        if isinstance(node, ast.Attribute):
            before = self._origin(node.value)
            return f"{before}.{node.attr}" if before else ""
        return ""

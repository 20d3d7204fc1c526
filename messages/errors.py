"""The exceptions of runtree.

    RuntreeError
    ├── ConfigurationError            something the caller wrote can't work
    │   ├── AgentDefinitionError      an Agent's field
    │   ├── ToolDefinitionError       a tool's signature or name
    │   ├── UnknownModelError         a model string nobody registered
    │   ├── NotPicklableError         a tool, model or dependency that can't travel to an actor
    │   ├── MissingSecretError        a key that is neither in `secrets` nor in the environment
    │   ├── TargetError               a TARGET of the command line that names no agent
    │   └── AddressError              a Ray address this runtime can't use
    ├── VersionMismatchError          processes with different versions of runtree
    ├── ProviderError                 a model call that failed
    │   ├── ProviderTimeoutError      silence or slowness
    │   ├── ProviderTransportError    the connection
    │   └── ProviderProtocolError     an answer that breaks the provider's own protocol
    ├── LimitExceededError            a bound of the run or its tree
    ├── ToolError                     raised by tools: told to the model, never fatal
    ├── LocalModelError               the model server on this node
    ├── RunError
    │   ├── RunFailedError            result() of a failed run
    │   ├── RunCancelledError         result() of a cancelled run
    │   └── UnknownRunError           an id nobody knows
    ├── RunLostError                  the process of a run is gone
    ├── ReplError                     a REPL session can't evaluate a cell
    │   ├── ReplClosedError           a session that is not open
    │   └── ReplStoppedError          a cell that did not end by itself
    │       ├── ReplCancelledError    the session's flag is set
    │       ├── ReplLimitError        a bound of the policy, or of the run around the session
    │       └── ReplWorkerError       the worker process died
    ├── RuntimeClosedError            a call on a Runtime that is not open
    ├── RuntimeUnavailableError       Ray, the supervisor or a queue does not answer
    │   └── StoreError                the supervisor can't write down what it decides
    └── InternalError                 a broken invariant: a bug of runtree

Every argument goes to `Exception.__init__` and the text is made in `__str__`: `args` is all that survives a process border.
"""

from typing import TYPE_CHECKING, ClassVar

from .failure import Failure, FailureCode

if TYPE_CHECKING:
    from .repl import ReplResult
    from .result import RunResult


class RuntreeError(Exception):
    """Base of all errors of runtree."""

    code: ClassVar[FailureCode] = "agent_error"

    def failure(self) -> Failure:
        """Return the error as a value for items, results and tool messages."""
        return Failure(code=self.code, message=str(self))


class ConfigurationError(RuntreeError):
    """Something the caller wrote can't work; raised before anything is started."""

    code: ClassVar[FailureCode] = "invalid_request"

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(field, problem, fix)
        self.field, self.problem, self.fix = field, problem, fix

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}. {self.fix}"


class AgentDefinitionError(ConfigurationError):
    """A field of an Agent is wrong."""


class ToolDefinitionError(ConfigurationError):
    """A function can't be made a tool, or two tools of an agent share a name."""


class UnknownModelError(ConfigurationError):
    """A model string has a prefix that no provider is registered for."""


class NotPicklableError(ConfigurationError):
    """A tool, model, hook or dependency can't be sent to the actor that would run it."""


class MissingSecretError(ConfigurationError):
    """A model needs a key that is neither given to the Runtime nor in its environment."""

    code: ClassVar[FailureCode] = "missing_secret"


class TargetError(ConfigurationError):
    """A TARGET of the command line names no agent."""


class AddressError(ConfigurationError):
    """A Ray address that this runtime can't work with."""


class VersionMismatchError(RuntreeError):
    """Two processes run different versions of runtree."""

    code: ClassVar[FailureCode] = "version_mismatch"

    def __init__(self, where: str, here: str, there: str, fix: str) -> None:
        super().__init__(where, here, there, fix)
        self.where, self.here, self.there, self.fix = where, here, there, fix

    def __str__(self) -> str:
        return f"{self.where} runs runtree {self.there}, this process {self.here}. {self.fix}"


class ProviderError(RuntreeError):
    """A model call failed; `details` says how."""

    code: ClassVar[FailureCode] = "provider"

    def __init__(self, details: Failure) -> None:
        super().__init__(details)
        self.details = details

    def __str__(self) -> str:
        status = f" (HTTP {self.details.status})" if self.details.status else ""
        return f"{self.details.message}{status}"

    def failure(self) -> Failure:
        """Return `details` as they are."""
        return self.details


class ProviderTimeoutError(ProviderError):
    """The provider was silent for too long, or its answer took too long."""


class ProviderTransportError(ProviderError):
    """The connection could not be made, or broke."""


class ProviderProtocolError(ProviderError):
    """The answer breaks the provider's own protocol, or ended before its terminal event."""


class LimitExceededError(RuntreeError):
    """A bound of the run or of its tree is reached."""

    code: ClassVar[FailureCode] = "limit_exceeded"

    def __init__(self, limit: str, allowed: str, scope: str = "run") -> None:
        super().__init__(limit, allowed, scope)
        self.limit, self.allowed, self.scope = limit, allowed, scope

    def __str__(self) -> str:
        return f"limit {self.limit} of the {self.scope} is reached (allowed: {self.allowed})"

    def failure(self) -> Failure:
        """Return the error with the limit's name."""
        return Failure(code=self.code, message=str(self), limit=self.limit)


class ToolError(RuntreeError):
    """Raised by a tool to tell the model, in the author's words, why the call failed."""

    code: ClassVar[FailureCode] = "tool_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0])


class LocalModelError(ConfigurationError):
    """The model server of this node can't be used: not installed, no weights, or it does not start."""


class RunError(RuntreeError):
    """A run did not give an output."""


class RunFailedError(RunError):
    """The run failed; `result` has what it did until then."""

    def __init__(self, result: "RunResult") -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        error = self.result.error
        return f"run {self.result.run_id} failed: {error.message if error else 'no reason given'}"

    def failure(self) -> Failure:
        """Return the failure of the run."""
        return self.result.error or super().failure()


class RunCancelledError(RunError):
    """The run was cancelled; `result` has what it did until then."""

    code: ClassVar[FailureCode] = "cancelled"

    def __init__(self, result: "RunResult") -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        error = self.result.error
        return f"run {self.result.run_id} was cancelled ({error.message if error else 'no reason given'})"


class UnknownRunError(RunError):
    """No run of this id is known in the namespace."""

    def __init__(self, run_id: str, namespace: str) -> None:
        super().__init__(run_id, namespace)
        self.run_id, self.namespace = run_id, namespace

    def __str__(self) -> str:
        return f"no run {self.run_id!r} in namespace {self.namespace!r}. `runtree ps` lists the runs"


class RunLostError(RuntreeError):
    """The process of a run is gone: killed, out of memory, or its node was lost."""

    code: ClassVar[FailureCode] = "lost"

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(run_id, reason)
        self.run_id, self.reason = run_id, reason

    def __str__(self) -> str:
        return f"the process of run {self.run_id} is gone: {self.reason}"


class ReplError(RuntreeError):
    """A REPL session can't evaluate a cell."""


class ReplClosedError(ReplError):
    """A REPL session was used before it was entered or after it was closed."""

    def __init__(self, call: str) -> None:
        super().__init__(call)
        self.call = call

    def __str__(self) -> str:
        return f"{self.call} needs an open session. Call it inside `async with ReplSession(...) as session:`"


class ReplStoppedError(ReplError):
    """A cell did not end by itself; `result` has what it did until then. The variables are as they were before it, if they are kept."""

    def __init__(self, problem: str, result: "ReplResult") -> None:
        super().__init__(problem, result)
        self.problem, self.result = problem, result

    def __str__(self) -> str:
        lost = "" if self.result.variables_kept else " The variables of earlier cells are lost."
        return f"the cell was stopped: {self.problem}.{lost}"


class ReplCancelledError(ReplStoppedError):
    """The session's flag was set, before the cell or while it ran."""

    code: ClassVar[FailureCode] = "cancelled"


class ReplLimitError(ReplStoppedError):
    """A cell came to a bound that its code can't catch."""

    code: ClassVar[FailureCode] = "limit_exceeded"

    def __init__(self, limit: str, allowed: str, result: "ReplResult") -> None:
        super().__init__(f"limit {limit} is reached (allowed: {allowed})", result)
        self.args = (limit, allowed, result)
        self.limit, self.allowed = limit, allowed

    def failure(self) -> Failure:
        """Return the error with the limit's name."""
        return Failure(code=self.code, message=str(self), limit=self.limit)


class ReplWorkerError(ReplStoppedError):
    """The process that evaluates the cells died."""

    code: ClassVar[FailureCode] = "lost"


class RuntimeClosedError(RuntreeError):
    """A Runtime was used before it was entered or after it was left."""

    def __init__(self, call: str) -> None:
        super().__init__(call)
        self.call = call

    def __str__(self) -> str:
        return f"{self.call} needs an open Runtime. Call it inside `async with Runtime() as runtime:`"


class RuntimeUnavailableError(RuntreeError):
    """A part of the runtime does not answer."""

    def __init__(self, part: str, problem: str, fix: str) -> None:
        super().__init__(part, problem, fix)
        self.part, self.problem, self.fix = part, problem, fix

    def __str__(self) -> str:
        return f"{self.part}: {self.problem}. {self.fix}"


class StoreError(RuntimeUnavailableError):
    """The supervisor can't write down what it decides: nothing is decided until it can."""

    def __init__(self, path: str, problem: str, fix: str) -> None:
        super().__init__(path, problem, fix)
        self.path = path

    def __str__(self) -> str:
        return f"the supervisor's store {self.path}: {self.problem}. {self.fix}"


class InternalError(RuntreeError):
    """An invariant of runtree is broken; please report it."""

    def __init__(self, invariant: str) -> None:
        super().__init__(invariant)
        self.invariant = invariant

    def __str__(self) -> str:
        return f"internal error of runtree: {self.invariant}"

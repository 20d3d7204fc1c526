"""A recorded answer as the model class reads it."""

from ...messages.content import ToolCallBlock
from ...messages.model import Completed, Failed
from ..chat.dialects import GENERIC
from ..chat.profile import ChatProfile
from ..chat.stream import ChatStream
from ..decoder import AnswerDecoder
from ..failures import from_answer
from .recording import Recording


def decode(recording: Recording, profile: ChatProfile = GENERIC) -> Completed | Failed:
    """Return what an answer comes to for a model with this profile."""
    decoder = AnswerDecoder(ChatStream(profile))
    if recording.status is not None and not recording.accepted:
        return decoder.fail(from_answer(recording.status, recording.headers, recording.body))
    events = [event for _, read in recording.reads for event in decoder.feed(read)]
    events += decoder.finish()
    last = events[-1]
    assert isinstance(last, Completed | Failed)
    return last


def calls_of(recording: Recording) -> tuple[ToolCallBlock, ...]:
    """Return the tool calls of an answer, also of one that was cut."""
    last = decode(recording)
    if isinstance(last, Completed):
        return last.response.message.tool_calls
    return last.partial.tool_calls if last.partial else ()

"""The wire format: every message as JSON, with its kind and the version of the schema.

A message is `{"kind": ..., "schema": 1, ...fields}`. The rule for changing it: a field is never
given another meaning; whoever adds, removes or changes one raises `SCHEMA` and teaches `decode` to
read the older form. Which class has a kind is found in kinds.py.
"""

from __future__ import annotations

import json
from typing import TypeVar

from discreet.learners.kinds import message_class
from discreet.learners.messages import Message
from discreet.validation import InvalidInput

SCHEMA = 1

M = TypeVar("M", bound=Message)


def encode(message: Message) -> str:
    """The message as one line of JSON."""
    fields = message.to_fields()
    return json.dumps({"kind": message.kind, "schema": SCHEMA, **fields}, allow_nan=False)


def decode(text: str | bytes, expected: type[M]) -> M:
    """The message of class `expected` in `text`: `Policy` on a device, `Reports` at a learner.

    The class is asked for so that nobody is handed another kind of message than they can use.

    Raises:
        InvalidInput: text that is not JSON, of another kind or schema, or with fields that are
            missing or wrong.
    """
    try:
        fields = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"the message is not JSON ({error}); send it as it was made.") from error
    if not isinstance(fields, dict) or "kind" not in fields:
        raise InvalidInput("the message has no kind; send it as encode() made it.")
    if type(fields.get("schema")) is not int or fields["schema"] != SCHEMA:
        raise InvalidInput(
            f"the message has schema {fields.get('schema')!r}; this version reads schema {SCHEMA}. "
            "Use the same version of discreet on both sides."
        )
    kind = message_class(fields["kind"])
    if kind is None or not issubclass(kind, expected):
        raise InvalidInput(
            f"the message has kind {fields['kind']!r:.80}; expected here is {expected.__name__}. "
            "Send a message of that class as encode() made it, to the side that it is for."
        )
    try:
        return kind.from_fields(fields)
    except InvalidInput:
        raise
    except KeyError as error:
        raise InvalidInput(f"the {fields['kind']} lacks the field {error}.") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"the {fields['kind']} is damaged ({error}).") from error

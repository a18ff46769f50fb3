"""What is wrong with a file of settings is said in the words of TOML."""

from __future__ import annotations

import tomllib

import pytest
from pydantic import BaseModel, ConfigDict, Field

from discreet.toml_files import Location, Place, checked, toml_value, value_lines
from discreet.validation import InvalidInput


class Wheel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    size: float = Field(1.0, gt=0)


class Car(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    wheels: list[Wheel] = Field(min_length=1)
    spare: Wheel | None = None
    speeds: list[float] | float = 1.0


TEXT = """# a car
[car]
speeds = 1  # no key = here
wheels = [
  { name = "left" },
  { name = "right", size = 0 },
]
[car.spare]
name = 'x'
[[car.more]]
a = 1
"""
PLACE = Place.of_file("car.toml", TEXT).within("car")


def test_lines_of_sections_keys_and_entries() -> None:
    known = PLACE.lines
    assert known["car",] == 2
    assert known["car", "wheels"] == 4
    assert known["car", "wheels", 1] == 6
    assert known["car", "spare", "name"] == 9
    assert known["car", "more", 0, "a"] == 11
    assert PLACE.message("late", ("wheels", 0, "size")) == "car.toml, line 5: late"
    assert Place("car").message("late", ("wheels",)) == "car: late"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"wheels": [{}]}, "line 5: wheels, entry 1, name is missing in [car]; set it."),
        ({"wheels": []}, "line 4: wheels was [] in [car]; it must be a list with at least 1."),
        ({"wheels": {}}, "a list of tables, each under [[car.wheels]] in double brackets."),
        (
            {"wheels": ["left"]},
            'line 5: wheels, entry 1 was "left" in [car]; it must be a table { name, size? } (keys '
            "with ? may be left out).",
        ),
        (
            {"wheels": [{"name": "l"}, {"name": "r", "size": 0}]},
            'line 6: wheels, entry 2 ("r"), size was 0 in [car]; it must be above 0.',
        ),
        (
            {"wheels": [{"name": "l", "sise": 2}]},
            'wheels, entry 1 ("l"), sise is not a key in [car]; keys here are: name, size. Did '
            "you mean 'size'?",
        ),
        ({"wheels": [{"name": "l"}], "spare": 3}, "spare was 3 in [car]; it must be a table"),
        (
            {"wheels": [{"name": "l"}], "speeds": "x"},
            'speeds was "x" in [car]; it must be a list in square brackets, or a number.',
        ),
        (
            {"wheels": [{"name": "l"}], "speeds": [1, True]},
            "speeds, entry 2 was true in [car]; it must be a number.",
        ),
    ],
)
def test_messages(content: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked(Car, content, PLACE)
    assert len(refused.value.args) == 1
    assert message in str(refused.value)


def test_an_unstated_value_is_named_with_its_requirement() -> None:
    with pytest.raises(InvalidInput) as refused:
        checked(Car, {"wheels": [{"name": "?", "size": "?"}], "speeds": [True, 1]}, PLACE)
    assert refused.value.args == (
        'car.toml, line 5: wheels, entry 1 ("?"), size is still "?" in [car]; state it: a number.',
        "car.toml, line 3: speeds, entry 1 was true in [car]; it must be a number.",
    )


LINES = '''# "not" = 1 [nor] this
seed = 1 # [nor] = this
title = """
[no header]
key = 1
"""
raw = "a = [" # [
a . "b c" = { c = "}" }

[problem] # a table
columns = [ { name = "x # 1", lower = 0 },
  # between
  { name = "y", values = ["a",
    "b"] }, { name = "z" },
  { name = "w" }
]
[problem.options.deep]
at = 1979-05-27 07:32:00
[[learners]]
name = "one"
[learners.options]
b = 1
[[learners]]
[[learners.sources]]
[[learners.sources]]
name = "s"
'''


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_headers_keys_and_tables_in_lists_have_lines(end: str) -> None:
    lines = value_lines(LINES.replace("\n", end))
    assert {location: lines[location] for location in WANTED} == WANTED
    assert {location[0] for location in lines} == set(tomllib.loads(LINES))


WANTED: dict[Location, int] = {
    ("seed",): 2,
    ("title",): 3,
    ("raw",): 7,
    ("a",): 8,
    ("a", "b c"): 8,
    ("problem",): 10,
    ("problem", "columns"): 11,
    ("problem", "columns", 1): 13,
    ("problem", "columns", 3): 15,
    ("problem", "options"): 17,
    ("problem", "options", "deep", "at"): 18,
    ("learners",): 19,
    ("learners", 0, "options", "b"): 22,
    ("learners", 1): 23,
    ("learners", 1, "sources", 0): 24,
    ("learners", 1, "sources", 1, "name"): 26,
}


def test_the_place_of_a_refusal_is_said_once() -> None:
    with pytest.raises(InvalidInput) as refused, PLACE.at("speeds"), PLACE.at("wheels", 1):
        raise InvalidInput("late", "car.toml, line 2: early")
    assert refused.value.args == ("car.toml, line 6: late", "car.toml, line 2: early")
    at_key = pytest.raises(InvalidInput, match=r"^car.toml, line 9: name was x\.$")
    with at_key, PLACE.at("spare"):
        raise InvalidInput("name was x.")
    messages = (*refused.value.args, "car.toml: late", "late: car.toml, line 2")
    assert [PLACE.parted(text) for text in messages] == [
        (6, "late"),
        (2, "early"),
        (None, "late"),
        (None, "late: car.toml, line 2"),
    ]
    with pytest.raises(InvalidInput, match=r"^late$"), Place("car").at("speeds"):
        raise InvalidInput("late")


def test_values_as_toml_writes_them() -> None:
    value = {"a": [1, 2.5, True], "b": "x"}
    assert toml_value(value) == '{ a = [1, 2.5, true], b = "x" }'
    assert len(toml_value("x" * 200)) == 80

"""One person's device beside a service: python examples/service_device.py URL STUDY KEY

URL is that of a running service, STUDY one of its studies under local privacy, and KEY a token for
its devices. The person's context, action and reward stay in the file `device.db`; run it again, and
no second report is made.
"""

import sys

from discreet import InvalidInput
from discreet.service.client import Device, Unreachable


def main(url: str, study: str, key: str) -> None:
    """Agree, act, report, and show the person what left."""
    with Device(url, study, key=key, store="device.db") as device:
        terms = device.terms()
        print(f"The study asks for epsilon = {terms.most_epsilon:g} (terms {terms.digest[:12]}).")
        device.agree(terms.digest)
        context = terms.domain.lower  # the least of everything; your app knows the person's own
        choice = device.act(context)
        print(f"You are given {choice.name or choice.arm}.")
        made = device.report(choice.id, reward=1.0)
        print("A report was made." if made else "No report: you have made all you agreed to.")
        try:
            device.send()
        except Unreachable as error:
            print(f"It waits, and is sent later: {error}")
        for row in device.ledger():
            print(f"{row.number}. {row.study}: epsilon = {row.epsilon:g}, {row.state}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (InvalidInput, TypeError) as error:
        sys.exit(str(error))

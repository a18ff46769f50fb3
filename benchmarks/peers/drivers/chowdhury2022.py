"""LinUCB of Chowdhury and Zhou (2022), from a checkout of sayakrc/Differentially-Private-Bandits.

    python chowdhury2022.py CHECKOUT '{"people": 20000, "epsilon": 1, "learner": "LDPLinUCB",
                                       "seed": 0, "runs": 10}'

prints {"regret": [...], "seconds": ...}. Their program is under the GPL: it runs as a process of
its own, a copy of it with other settings in a temporary folder, and what it writes is read.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Run their program with other settings, and read the regrets that it saved."""
    asked = json.loads(sys.argv[2])
    program = Path(sys.argv[1], "LinBanditPrivate.py").read_text(encoding="utf-8")
    settings = {
        r"num_runs = \d+": f"num_runs = {asked['runs']}",
        r"\bn = \d+ # number of rounds": f"n = {asked['people']}",
        r"np\.random\.seed\(2\)": f"np.random.seed({asked['seed']})",
        r"5, 0\.2, 0\.1, 20, \".*\"": f'5, {asked["epsilon"]}, 0.1, 20, "run"',
        r"\(LinUCB, \{\}, \"LinUCB\"\),": "",
    }
    for other in {"LDPLinUCB", "JDPLinUCB", "SDPLinUCBPAmp", "SDPLinUCBPVec"} - {asked["learner"]}:
        settings[rf"\({other}, \{{\}}, \"{other}\"\),"] = ""
    for pattern, text in settings.items():
        program, count = re.subn(pattern, lambda _, text=text: text, program)
        if count != 1:
            sys.exit(f"{pattern!r} stands {count} times in LinBanditPrivate.py, not once")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "run.py").write_text(program, encoding="utf-8")
        start = time.perf_counter()
        subprocess.run([sys.executable, "run.py"], cwd=folder, check=True, stdout=sys.stderr)
        seconds = (time.perf_counter() - start) / asked["runs"]
        saved = Path(folder, "Results", "Lin", "run", asked["learner"]).read_text(encoding="utf-8")
    regret = [float(each) for each in saved.strip().splitlines()[-1].split(",")]
    print(json.dumps({"regret": regret, "seconds": seconds}))


if __name__ == "__main__":
    main()

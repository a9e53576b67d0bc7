# SPDX-License-Identifier: GPL-2.0
"""The cost of a sample whose user stack is unwound by tables, in instructions of the guest."""

from harness import start, test, workload, comment
from stackbeat import S, Session
from unwind_tables import set_tables


def measure(command, tables):
    process = start(*command)
    with Session(rate=1000, watermark=4096, pids=[process.pid], unwind_tables=int(bool(tables)), no_jitter=1, budget=500) as session:
        session.start()
        if tables == "set":
            set_tables(session, process)
        session.read_until(lambda samples: len(samples) >= 100)
        session.set(watermark=200000)
        session.read()
        before = session.stats()
        session.poll()
        after = session.stats()
        samples = session.read()
    process.kill()
    process.wait()
    count = after["samples"] - before["samples"]
    filtered = after["ticks"] - before["ticks"] - count
    depth = sum(len(s.user) for s in samples) / len(samples)
    tf = sum(s.table_frames for s in samples) / len(samples)
    print(f"{command[0].name if hasattr(command[0],'name') else command[0]} {command[1:]} tables {tables}: {(after['overhead_ns'] - before['overhead_ns']) / count:.1f} a sample, depth {depth:.1f} tables {tf:.1f} filtered {filtered} of {count}", flush=True)


@test
def cost():
    for depth in (8, 32, 100):
        measure(workload("deep", depth, 1 << 60), None)
        measure(workload("deep", depth, 1 << 60), "unset")
        measure(workload("frameless", "plain", depth), "set")

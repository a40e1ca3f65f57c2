"""MiniStack until standard input ends, so that it cannot outlive whoever started it."""
import os
import signal
import sys
import threading


def end_with_stdin():
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


threading.Thread(target=end_with_stdin, daemon=True).start()
sys.argv = ["ministack"]
from ministack.app import main
from ministack.services import lambda_svc
from ministack.services.cloudformation import provisioners

# Lambda's event filters know $or, MiniStack's do not yet: it would drop every record that such a filter lets through.
without_or = lambda_svc._match_esm_filter


def with_or(record, pattern):
    if not isinstance(pattern, dict) or "$or" not in pattern:
        return without_or(record, pattern)
    others = {name: value for name, value in pattern.items() if name != "$or"}
    return with_or(record, others) and any(with_or(record, one) for one in pattern["$or"])


lambda_svc._match_esm_filter = with_or

# Parameters are texts. MiniStack makes these properties numbers where a stack is created, and not where one is updated: the
# mapping then fails whenever it polls.
mapping = provisioners._RESOURCE_HANDLERS["AWS::Lambda::EventSourceMapping"]
without_numbers = mapping["update"]


def with_numbers(physical_id, old, new, stack):
    new = dict(new)
    for name in ("BatchSize", "MaximumBatchingWindowInSeconds"):
        if name in new:
            new[name] = int(new[name])
    return without_numbers(physical_id, old, new, stack)


mapping["update"] = with_numbers

main()

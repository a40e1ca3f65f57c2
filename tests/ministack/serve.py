"""MiniStack until standard input ends, so that it cannot outlive whoever started it."""
import contextvars
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
from ministack import app
from ministack.app import AUTH, main
from ministack.core import iam_actions, iam_evaluator
from ministack.core.iam_evaluator import resolve_caller_identity
from ministack.core.responses import new_uuid
from ministack.core.router import extract_access_key_id
from ministack.services import eventbridge, lambda_svc
from ministack.services.cloudformation import provisioners

# Lambda's event filters know $or, MiniStack's do not yet: it would drop every record that such a filter lets through. And it
# drops records in which the object around a field is missing, although the filter wants the field to be absent.
without_or = lambda_svc._match_esm_filter


def accepts_absence(pattern):
    if isinstance(pattern, dict):
        return all(accepts_absence(one) for one in pattern.values())
    return {"exists": False} in pattern


def with_or(record, pattern):
    if not isinstance(pattern, dict):
        return without_or(record, pattern)
    others = {}
    for name, value in pattern.items():
        if name == "$or":
            if not any(with_or(record, one) for one in value):
                return False
        elif isinstance(value, dict) and name not in record:
            if not accepts_absence(value):
                return False
        else:
            others[name] = value
    return without_or(record, others)


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

# MiniStack does not know this kind of resource, and does not enforce the policies of event buses.
def put_bus_policy(logical_id, props, stack_name):
    statement = dict(props["Statement"], Sid=props["StatementId"])
    policy = eventbridge._event_bus_policies.setdefault(props["EventBusName"], {"Version": "2012-10-17", "Statement": []})
    policy["Statement"] = [s for s in policy["Statement"] if s.get("Sid") != statement["Sid"]] + [statement]
    return f"{props['EventBusName']}|{statement['Sid']}", {}


def delete_bus_policy(physical_id, props):
    eventbridge._event_bus_policies.pop(props["EventBusName"], None)


def bus_policy_for_arn(arn):
    policy = eventbridge._event_bus_policies.get(arn.rpartition("/")[2])
    return (policy, arn.split(":")[4]) if policy else None


eventbridge.bus_policy_for_arn = bus_policy_for_arn
iam_evaluator._RESOURCE_POLICY_LOOKUPS["events"] = ("eventbridge", "bus_policy_for_arn")
provisioners._RESOURCE_HANDLERS["AWS::Events::EventBusPolicy"] = {
    "create": put_bus_policy,
    "update": lambda physical_id, old, new, stack: put_bus_policy(physical_id, new, stack),
    "delete": delete_bus_policy,
}

# AWS's function URL keeps the path as the client has encoded it, where MiniStack decodes it. It also tells the function who
# calls, as IAM has verified it: MiniStack verifies signature and policies, and says nothing of the caller.
encoded_path = contextvars.ContextVar("encoded_path", default="")
pin_without_path = app.pin_signed_request


def pin_with_path(method, raw_path, *rest):
    encoded_path.set(raw_path)
    return pin_without_path(method, raw_path, *rest)


app.pin_signed_request = pin_with_path
without_caller = lambda_svc._build_function_url_event


def with_caller(url_id, account_id, region, method, path, headers, *rest, **more):
    event = without_caller(url_id, account_id, region, method, path, headers, *rest, **more)
    caller = resolve_caller_identity(extract_access_key_id(headers, {})) if AUTH else None
    prefix = f"/_aws/lambda-url/{url_id}"
    event["rawPath"] = event["requestContext"]["http"]["path"] = encoded_path.get().removeprefix(prefix) or path
    if caller:
        event["requestContext"]["authorizer"] = {"iam": {
            "accessKey": caller["accessKey"], "accountId": caller["accountId"], "callerId": caller["userId"],
            "cognitoIdentity": None, "principalOrgId": caller["principalOrgId"], "userArn": caller["userArn"],
            "userId": caller["userId"]}}
    return event


lambda_svc._build_function_url_event = with_caller

# AWS accepts only signatures for the service lambda there, MiniStack those for any service.
for_any_service = lambda_svc.handle_function_url_request


async def for_lambda(url_id, method, path, headers, *rest, **more):
    scope = headers.get("authorization", "").partition("Credential=")[2].partition(",")[0].split("/")
    if AUTH and len(scope) == 5 and scope[3] != "lambda":
        return 403, {"Content-Type": "application/json", "x-amzn-RequestId": new_uuid(),
                     "x-amzn-ErrorType": "InvalidSignatureException"}, \
            b'{"message":"Credential should be scoped to correct service: \'lambda\'. "}'
    return await for_any_service(url_id, method, path, headers, *rest, **more)


lambda_svc.handle_function_url_request = for_lambda

# IAM's actions of Lambda are one for each operation. MiniStack takes a single mapping for a list, and reading a function's
# concurrency for setting it.
by_path = iam_actions._lambda_action


def by_operation(method, path):
    parts = [part for part in path.split("/") if part]
    if parts[1:2] == ["event-source-mappings"] and len(parts) > 2:
        return {"GET": "Get", "PUT": "Update", "DELETE": "Delete"}.get(method, "Get") + "EventSourceMapping"
    if parts[1:2] == ["functions"] and parts[3:] == ["concurrency"]:
        return {"GET": "Get", "PUT": "Put", "DELETE": "Delete"}.get(method, "Get") + "FunctionConcurrency"
    if parts[1:] == ["account-settings"]:
        return "GetAccountSettings"
    return by_path(method, path)


iam_actions._lambda_action = by_operation

main()

"""A blue/green deployment by hand: a service with the deployment controller EXTERNAL and its task sets."""

import time

import boto3

ecs = boto3.client("ecs")
SERVICE = "by-hand"
OF = {"cluster": "default", "service": SERVICE}


def expect(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")


def refused(what, error, message, call):
    try:
        call()
    except error as e:
        if message not in str(e):
            raise SystemExit(f"{what}: {e}")
        return
    raise SystemExit(f"{what} is not refused")


def register(image):
    return ecs.register_task_definition(
        family=SERVICE, containerDefinitions=[{"name": "web", "image": image, "cpu": 64, "memory": 64}],
    )["taskDefinition"]["taskDefinitionArn"]


def service():
    return ecs.describe_services(services=[SERVICE])["services"][0]


def task_sets(*ids):
    answer = ecs.describe_task_sets(**OF, taskSets=list(ids))
    expect("failures", answer["failures"], [])
    return answer["taskSets"]


def steady(arn, count):
    for _ in range(120):
        got = task_sets(arn)[0]
        if got["stabilityStatus"] == "STEADY_STATE":
            expect("the counts", (got["computedDesiredCount"], got["runningCount"], got["pendingCount"]),
                   (count, count, 0))
            return got
        time.sleep(1)
    raise SystemExit(f"not steady: {got}")


def running(arn):
    """The ids of the task set's tasks, which name it as what started them."""
    arns = ecs.list_tasks(serviceName=SERVICE)["taskArns"]
    tasks = ecs.describe_tasks(tasks=arns)["tasks"] if arns else []
    return {t["taskArn"] for t in tasks if arn.endswith(t["startedBy"])}


first, second = register("nginx:1"), register("nginx:2")
controller = {"type": "EXTERNAL"}
refused("a task definition", ecs.exceptions.InvalidParameterException, "TaskDefinition must be blank.",
        lambda: ecs.create_service(serviceName=SERVICE, deploymentController=controller, taskDefinition=first))
made = ecs.create_service(serviceName=SERVICE, deploymentController=controller, desiredCount=2)["service"]
expect("the controller", made["deploymentController"], controller)
expect("without a primary task set", (made["deployments"], made["taskSets"], "taskDefinition" in made), ([], [], False))

asked = {**OF, "taskDefinition": first, "scale": {"value": 100, "unit": "PERCENT"}, "clientToken": "blue",
         "externalId": "release-1", "tags": [{"key": "colour", "value": "blue"}]}
blue = ecs.create_task_set(**asked)["taskSet"]
expect("the same token", ecs.create_task_set(**asked)["taskSet"]["taskSetArn"], blue["taskSetArn"])
expect("blue", (blue["status"], blue["computedDesiredCount"], blue["launchType"], blue["externalId"]),
       ("ACTIVE", 2, "EC2", "release-1"))
steady(blue["taskSetArn"], 2)
old = running(blue["taskSetArn"])
expect("the tasks of blue", len(old), 2)
ecs.update_service_primary_task_set(**OF, primaryTaskSet=blue["taskSetArn"])
expect("the service's task definition", service()["taskDefinition"], first)

green = ecs.create_task_set(**OF, taskDefinition=second)["taskSet"]
expect("green's scale", green["scale"], {"value": 0.0, "unit": "PERCENT"})
steady(green["id"], 0)
green = ecs.update_task_set(**OF, taskSet=green["id"], scale={"value": 100, "unit": "PERCENT"})["taskSet"]
expect("green at once", (green["computedDesiredCount"], green["stabilityStatus"]), (2, "STABILIZING"))
steady(green["id"], 2)
expect("blue's tasks, which green does not touch", running(blue["taskSetArn"]), old)
expect("green", ecs.update_service_primary_task_set(**OF, primaryTaskSet=green["id"])["taskSet"]["status"], "PRIMARY")
expect("the statuses", [s["status"] for s in service()["taskSets"]], ["ACTIVE", "PRIMARY"])
expect("the service's task definition", service()["taskDefinition"], second)

refused("deleting blue", ecs.exceptions.InvalidParameterException, "scaled above 0",
        lambda: ecs.delete_task_set(**OF, taskSet=blue["id"]))
expect("blue", ecs.delete_task_set(**OF, taskSet=blue["id"], force=True)["taskSet"]["status"], "DRAINING")
for _ in range(120):
    if not ecs.describe_task_sets(**OF, taskSets=[blue["id"]])["taskSets"]:
        break
    time.sleep(1)
missing = ecs.describe_task_sets(**OF, taskSets=[blue["taskSetArn"]])["failures"]
expect("blue is gone", missing, [{"arn": blue["taskSetArn"], "reason": "MISSING"}])
refused("scaling it", ecs.exceptions.TaskSetNotFoundException, "",
        lambda: ecs.update_task_set(**OF, taskSet=blue["id"], scale={"value": 1}))
expect("the service", (service()["runningCount"], service()["pendingCount"]), (2, 0))

ecs.update_service(service=SERVICE, desiredCount=3)
steady(green["id"], 3)
refused("a rollout", ecs.exceptions.InvalidParameterException,
        "Cannot force a new deployment on services with a EXTERNAL deployment controller.",
        lambda: ecs.update_service(service=SERVICE, forceNewDeployment=True))
ecs.tag_resource(resourceArn=green["taskSetArn"], tags=[{"key": "colour", "value": "green"}])
expect("the tags", ecs.describe_task_sets(**OF, include=["TAGS"])["taskSets"][0]["tags"],
       [{"key": "colour", "value": "green"}])

ecs.delete_service(service=SERVICE, force=True)
ecs.get_waiter("services_inactive").wait(services=[SERVICE], WaiterConfig={"Delay": 1, "MaxAttempts": 60})
print("the end")

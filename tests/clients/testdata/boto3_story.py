"""A service's life with boto3: its clients, waiters, paginators and exception classes."""

import boto3

ecs = boto3.client("ecs")
FAMILY = SERVICE = "boto3"


def expect(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")


def register(image):
    answer = ecs.register_task_definition(
        family=FAMILY,
        containerDefinitions=[{"name": "web", "image": image, "cpu": 64, "memory": 64,
                               "portMappings": [{"containerPort": 80}]}],
        tags=[{"key": "team", "value": "shop"}])
    expect("the definition's tags", answer["tags"], [{"key": "team", "value": "shop"}])
    return answer["taskDefinition"]


def service():
    answer = ecs.describe_services(services=[SERVICE], include=["TAGS"])
    expect("failures", answer["failures"], [])
    return answer["services"][0]


def running():
    arns = [arn for page in ecs.get_paginator("list_tasks").paginate(serviceName=SERVICE, PaginationConfig={"PageSize": 1})
            for arn in page["taskArns"]]
    return ecs.describe_tasks(tasks=arns, include=["TAGS"])["tasks"] if arns else []


def stable():
    ecs.get_waiter("services_stable").wait(services=[SERVICE], WaiterConfig={"Delay": 1, "MaxAttempts": 120})


first = register("nginx:1")
for member in ("volumes", "placementConstraints", "requiresAttributes", "compatibilities"):
    expect(f"the kind of {member}", type(first.get(member)), list)
container = first["containerDefinitions"][0]
expect("the port", container["portMappings"], [{"containerPort": 80, "hostPort": 0, "protocol": "tcp"}])
for member in ("environment", "mountPoints", "volumesFrom", "systemControls"):
    expect(f"the container's {member}", container.get(member), [])

made = ecs.create_service(serviceName=SERVICE, taskDefinition=FAMILY, desiredCount=2, clientToken="once",
                          propagateTags="SERVICE", enableECSManagedTags=True,
                          tags=[{"key": "stage", "value": "test"}])["service"]
expect("the status", made["status"], "ACTIVE")
stable()
expect("the service's tags", service()["tags"], [{"key": "stage", "value": "test"}])
for task in running():
    tags = {t["key"]: t["value"] for t in task["tags"]}
    expect("the task's tags", tags, {"stage": "test", "aws:ecs:clusterName": "default", "aws:ecs:serviceName": SERVICE})
    expect("the task's status", (task["lastStatus"], task["connectivity"]), ("RUNNING", "CONNECTED"))
    if not task["containers"][0]["networkBindings"][0]["hostPort"]:
        raise SystemExit(f"no host port: {task}")

second = register("nginx:2")
expect("the revision", second["revision"], first["revision"] + 1)
ecs.update_service(service=SERVICE, taskDefinition=second["taskDefinitionArn"], desiredCount=3)
stable()
expect("the images", [c["image"] for t in running() for c in t["containers"]], ["nginx:2"] * 3)
deployments = ecs.list_service_deployments(service=SERVICE)["serviceDeployments"]
expect("the deployments", [d["status"] for d in deployments], ["SUCCESSFUL"] * 2)

ran = ecs.run_task(taskDefinition=FAMILY, count=2, startedBy="boto3", enableECSManagedTags=True,
                   overrides={"containerOverrides": [{"name": "web", "command": ["sleep", "60"]}]})
expect("failures", ran["failures"], [])
arns = [t["taskArn"] for t in ran["tasks"]]
ecs.get_waiter("tasks_running").wait(tasks=arns, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
expect("who started them", sorted(ecs.list_tasks(startedBy="boto3")["taskArns"]), sorted(arns))
for arn in arns:
    ecs.stop_task(task=arn, reason="enough")
ecs.get_waiter("tasks_stopped").wait(tasks=arns, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
for task in ecs.describe_tasks(tasks=arns)["tasks"]:
    expect("why it stopped", (task["stopCode"], task["stoppedReason"]), ("UserInitiated", "enough"))
    for at in ("createdAt", "pullStartedAt", "pullStoppedAt", "startedAt", "stoppingAt", "stoppedAt"):
        if at not in task:
            raise SystemExit(f"no {at}: {task}")

arn = service()["serviceArn"]
ecs.tag_resource(resourceArn=arn, tags=[{"key": "owner", "value": "ann"}])
ecs.untag_resource(resourceArn=arn, tagKeys=["stage"])
expect("the tags", ecs.list_tags_for_resource(resourceArn=arn)["tags"], [{"key": "owner", "value": "ann"}])

cluster = ecs.describe_clusters(clusters=["default"], include=["STATISTICS", "SETTINGS", "TAGS"])["clusters"][0]
expect("the cluster", (cluster["status"], cluster["activeServicesCount"] > 0), ("ACTIVE", True))
families = [f for page in ecs.get_paginator("list_task_definition_families").paginate(familyPrefix=FAMILY)
            for f in page["families"]]
expect("the families", families, [FAMILY])

for call, error in (
        (lambda: ecs.describe_services(cluster="nowhere", services=["x"]), ecs.exceptions.ClusterNotFoundException),
        (lambda: ecs.update_service(service="nobody", desiredCount=1), ecs.exceptions.ServiceNotFoundException),
        (lambda: ecs.describe_task_definition(taskDefinition="nothing"), ecs.exceptions.ClientException),
        (lambda: ecs.create_service(serviceName="x y", taskDefinition=FAMILY), ecs.exceptions.InvalidParameterException),
):
    try:
        call()
    except error:
        continue
    raise SystemExit(f"no {error.__name__}")
expect("what is missing", [f["reason"] for f in ecs.describe_tasks(tasks=["0" * 32])["failures"]], ["MISSING"])

ecs.update_service(service=SERVICE, desiredCount=0)
ecs.delete_service(service=SERVICE)
ecs.get_waiter("services_inactive").wait(services=[SERVICE], WaiterConfig={"Delay": 1, "MaxAttempts": 60})
for definition in (first, second):
    ecs.deregister_task_definition(taskDefinition=definition["taskDefinitionArn"])
gone = ecs.delete_task_definitions(taskDefinitions=[first["taskDefinitionArn"]])
expect("what cannot be deleted", gone["failures"], [])
print("the end")

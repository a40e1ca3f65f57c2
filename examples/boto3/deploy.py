"""Deploys an image as the service "hello", and waits until it runs: python3 deploy.py nginx:1"""
import sys

import boto3

ecs = boto3.client("ecs")
ecs.create_cluster(clusterName="default")
definition = ecs.register_task_definition(
    family="hello",
    containerDefinitions=[{"name": "hello", "image": sys.argv[1], "cpu": 64, "memory": 64}],
)["taskDefinition"]["taskDefinitionArn"]

active = [s for s in ecs.describe_services(services=["hello"])["services"] if s["status"] == "ACTIVE"]
if active:
    ecs.update_service(service="hello", taskDefinition=definition)
else:
    ecs.create_service(
        serviceName="hello",
        taskDefinition=definition,
        desiredCount=2,
        deploymentConfiguration={"deploymentCircuitBreaker": {"enable": True, "rollback": True}},
    )
ecs.get_waiter("services_stable").wait(services=["hello"])

service = ecs.describe_services(services=["hello"])["services"][0]
print(f"{service['runningCount']} tasks of {service['taskDefinition'].rsplit('/')[-1]} run")
sys.exit(service["taskDefinition"] != definition)  # the circuit breaker has rolled it back

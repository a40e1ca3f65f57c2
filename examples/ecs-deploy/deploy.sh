#!/bin/sh
# Deploys another image of a service that exists, and waits until it runs: sh deploy.sh nginx:2
# CLUSTER and SERVICE name the service; its container is called like it.
set -eu
service=${SERVICE:-hello}
ecs deploy "${CLUSTER:-default}" "$service" --image "$service" "$1" --timeout 300 --rollback

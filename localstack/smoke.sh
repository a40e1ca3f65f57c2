#!/usr/bin/env bash
# Runs a service of two tasks through Berth on LocalStack and waits until it is stable.
set -euo pipefail
stack=${1:-berth}
url=$(awslocal cloudformation describe-stacks --stack-name "$stack" \
  --query "Stacks[0].Outputs[?OutputKey=='ApiUrl'].OutputValue" --output text)
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=us-east-1
ecs() { aws ecs --endpoint-url "$url" "$@"; }
ecs create-cluster --cluster-name default --query cluster.status
ecs register-task-definition --family web --container-definitions \
  '[{"name": "web", "image": "nginx", "cpu": 256, "memory": 512, "essential": true}]' --query taskDefinition.status
ecs create-service --service-name web --task-definition web --desired-count 2 --query service.status
ecs wait services-stable --services web
ecs describe-services --services web --query 'services[0].runningCount'

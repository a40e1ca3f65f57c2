// Package clients uses Berth with the tools that people have: the AWS CLI, boto3, ecs-deploy,
// Ansible's community.aws, Terraform with hashicorp/aws, and the Go SDK with its waiters.
//
// Each tool lives a story as its users do: create a service and wait until it is stable, update the
// image, scale, run a task and stop it, tag, delete. A test judges by what the tool prints and by
// its exit code. It knows a [door], an address of Berth's API, and nothing else. There are two:
// `berth up`, and `berth proxy` before the API of the local cloud tier, where IAM is enforced.
//
// make check fetches the tools of PyPI (tools/clients.txt) into .cache/. Terraform and its provider
// must be on the machine. A test whose tool is missing is skipped and says so.
package clients

package wire_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/operation"
)

// A revision whose deregistration is deferred is shown as ECS would show it, and ECS is not asked to
// deregister or delete it.
func TestDeferredDeregistrations(t *testing.T) {
	b, ctx := newBerth(t), t.Context()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b.scheduler.deferred = map[string]*operation.Deregistration{"shop:3": {Family: "shop", Revision: 3, At: at}}
	ended := must(b.DeregisterTaskDefinition(ctx,
		&ecs.DeregisterTaskDefinitionInput{TaskDefinition: new("shop:3")}))(t).TaskDefinition
	expect(t, "status", ended.Status, types.TaskDefinitionStatusInactive)
	expect(t, "time", *ended.DeregisteredAt, at)
	described := must(b.DescribeTaskDefinition(ctx,
		&ecs.DescribeTaskDefinitionInput{TaskDefinition: new("shop:3")}))(t).TaskDefinition
	expect(t, "described", described.Status, types.TaskDefinitionStatusInactive)
	list := func(status types.TaskDefinitionStatus) []string {
		return must(b.ListTaskDefinitions(ctx, &ecs.ListTaskDefinitionsInput{Status: status}))(t).TaskDefinitionArns
	}
	expect(t, "listed as ACTIVE", list(""), []string{})
	expect(t, "listed as INACTIVE", list(types.TaskDefinitionStatusInactive),
		[]string{account.ARN("task-definition", "shop:3")})
	_, err := b.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: new("shop")})
	refused(t, err, "ClientException", "Unable to describe task definition.")
	_, err = b.RunTask(ctx, &ecs.RunTaskInput{TaskDefinition: new("shop")})
	refused(t, err, "ClientException", "TaskDefinition not found.")
	deleted := must(b.DeleteTaskDefinitions(ctx,
		&ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{"shop:3", "shop:4"}}))(t)
	expect(t, "deleted", deleted.TaskDefinitions[0].Status, types.TaskDefinitionStatusDeleteInProgress)
	expect(t, "listed while it is deleted", list(types.TaskDefinitionStatusDeleteInProgress),
		[]string{account.ARN("task-definition", "shop:3")})
	for _, call := range b.cloud.calls {
		if call == "DeregisterTaskDefinition" {
			t.Error("ECS was asked to deregister the revision")
		}
	}
}

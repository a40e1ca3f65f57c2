package ecsapi

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// protectionOperations answers the operations on task protection, which are Berth's own: ECS
// protects tasks from its own scheduler only.
type protectionOperations struct {
	input.References
	protections TaskProtections
}

func (o *protectionOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"UpdateTaskProtection": awsjson.TypedOperation(o.updateTaskProtection),
		"GetTaskProtection":    awsjson.TypedOperation(o.getTaskProtection),
	}
}

// Bounds of task protection (ECS API reference, UpdateTaskProtection and GetTaskProtection).
const (
	// maxProtect is how many tasks one call protects, maxProtected how many it describes.
	maxProtect   = 10
	maxProtected = 100
	// maxMinutes is how long a protection lasts at most, two days; protectionMinutes, two hours,
	// how long it lasts if the caller does not say.
	maxMinutes        = 2880
	protectionMinutes = 120
)

// updateTaskProtection protects 1 to 10 tasks, or ends their protection. Each answers for itself:
// those that cannot be protected are failures beside the others.
func (o *protectionOperations) updateTaskProtection(
	ctx context.Context, in *ecs.UpdateTaskProtectionInput,
) (*ecs.UpdateTaskProtectionOutput, error) {
	clusterName, ids, err := o.ReadTasks(in.Cluster, in.Tasks, maxProtect)
	if err != nil {
		return nil, err
	}
	minutes := int32(protectionMinutes)
	if in.ExpiresInMinutes != nil {
		minutes = *in.ExpiresInMinutes
	}
	if minutes < 1 || minutes > maxMinutes {
		return nil, input.Invalid("expiresInMinutes is %d, but must be between 1 and %d.", minutes, maxMinutes)
	}
	// The scheduler takes a duration of 0 as the end of a protection.
	if !in.ProtectionEnabled {
		minutes = 0
	}
	done, failed, err := o.protections.ProtectTasks(ctx, clusterName, ids, time.Duration(minutes)*time.Minute)
	if err != nil {
		return nil, err
	}
	return &ecs.UpdateTaskProtectionOutput{ProtectedTasks: protectionShapes(o.Account, clusterName, done),
		Failures: failureShapes(o.Account, clusterName, "task", failed)}, nil
}

// getTaskProtection reads the protection of 1 to 100 tasks.
func (o *protectionOperations) getTaskProtection(
	ctx context.Context, in *ecs.GetTaskProtectionInput,
) (*ecs.GetTaskProtectionOutput, error) {
	clusterName, ids, err := o.ReadTasks(in.Cluster, in.Tasks, maxProtected)
	if err != nil {
		return nil, err
	}
	got, failed, err := o.protections.DescribeTaskProtections(ctx, clusterName, ids)
	if err != nil {
		return nil, err
	}
	return &ecs.GetTaskProtectionOutput{ProtectedTasks: protectionShapes(o.Account, clusterName, got),
		Failures: failureShapes(o.Account, clusterName, "task", failed)}, nil
}

// protectionShapes returns tasks as protected until a time, or not at all.
func protectionShapes(
	account cluster.Account, clusterName string, tasks []operation.ProtectedTask,
) []types.ProtectedTask {
	return shape.ConvertEach(tasks, func(t operation.ProtectedTask) types.ProtectedTask {
		return types.ProtectedTask{
			TaskArn: new(account.ARN("task", clusterName, t.Task)), ProtectionEnabled: !t.Until.IsZero(),
			ExpirationDate: shape.TimeOrNil(t.Until),
		}
	})
}

package wire

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// Bounds of task protection (ECS API reference, UpdateTaskProtection and GetTaskProtection).
const (
	maxProtect        = 10
	maxProtected      = 100
	maxMinutes        = 2880
	protectionMinutes = 120
)

// tasksIn reads a list of tasks, each of them once.
func (s *server) tasksIn(clusterRef *string, refs []string, most int) (clusterName string, ids []string, err error) {
	if clusterName, err = s.cluster(clusterRef); err != nil {
		return "", nil, err
	}
	if err := count("tasks", len(refs), most); err != nil {
		return "", nil, err
	}
	for _, ref := range refs {
		id, err := s.task(clusterName, ref)
		if err != nil {
			return "", nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return clusterName, ids, nil
}

func (s *server) updateTaskProtection(ctx context.Context, in *ecs.UpdateTaskProtectionInput) (*ecs.UpdateTaskProtectionOutput, error) {
	clusterName, ids, err := s.tasksIn(in.Cluster, in.Tasks, maxProtect)
	if err != nil {
		return nil, err
	}
	minutes := int32(protectionMinutes)
	if in.ExpiresInMinutes != nil {
		minutes = *in.ExpiresInMinutes
	}
	if minutes < 1 || minutes > maxMinutes {
		return nil, invalid("expiresInMinutes is %d, but must be between 1 and %d.", minutes, maxMinutes)
	}
	if !in.ProtectionEnabled {
		minutes = 0
	}
	done, failed, err := s.scheduler.ProtectTasks(ctx, clusterName, ids, time.Duration(minutes)*time.Minute)
	if err != nil {
		return nil, err
	}
	return &ecs.UpdateTaskProtectionOutput{ProtectedTasks: s.protected(clusterName, done), Failures: s.failures(clusterName, "task", failed)}, nil
}

func (s *server) getTaskProtection(ctx context.Context, in *ecs.GetTaskProtectionInput) (*ecs.GetTaskProtectionOutput, error) {
	clusterName, ids, err := s.tasksIn(in.Cluster, in.Tasks, maxProtected)
	if err != nil {
		return nil, err
	}
	got, failed, err := s.scheduler.TaskProtections(ctx, clusterName, ids)
	if err != nil {
		return nil, err
	}
	return &ecs.GetTaskProtectionOutput{ProtectedTasks: s.protected(clusterName, got), Failures: s.failures(clusterName, "task", failed)}, nil
}

func (s *server) protected(clusterName string, tasks []cluster.ProtectedTask) []types.ProtectedTask {
	out := []types.ProtectedTask{}
	for _, t := range tasks {
		out = append(out, types.ProtectedTask{
			TaskArn: new(s.account.ARN("task", clusterName, t.Task)), ProtectionEnabled: !t.Until.IsZero(), ExpirationDate: instant(t.Until),
		})
	}
	return out
}

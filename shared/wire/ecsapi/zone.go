package ecsapi

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// zones finds the availability zones of instances. Berth's rows have them as attributes, but this
// package does not read rows. An instance's zone never changes, so each is asked for once.
type zones struct {
	ecs  upstream
	kept cache[string] // by cluster/instance
}

// zonesOf returns the zones of the tasks' instances by instance id. It leaves out instances that
// ECS does not describe.
func (z *zones) zonesOf(ctx context.Context, clusterName string, tasks []*cluster.Task) map[string]string {
	out := map[string]string{}
	var unknown []string
	for _, t := range tasks {
		if _, seen := out[t.Instance]; seen || t.Instance == "" {
			continue
		}
		zone, ok := z.kept.get(clusterName + "/" + t.Instance)
		if out[t.Instance] = zone; !ok {
			unknown = append(unknown, t.Instance)
		}
	}
	if len(unknown) == 0 {
		return out
	}
	var answer ecs.DescribeContainerInstancesOutput
	in := map[string]any{"cluster": clusterName, "containerInstances": unknown}
	if err := z.ecs.callECS(ctx, "DescribeContainerInstances", in, &answer); err != nil {
		return out // the tasks are described without their zones
	}
	for _, i := range answer.ContainerInstances {
		v := shape.ParseInstance(clusterName, i)
		out[v.ID] = v.Zone()
		z.kept.put(clusterName+"/"+v.ID, v.Zone())
	}
	return out
}

package ecsapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/cluster"
	"berth/shared/wire/input"
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

// Networks looks up at EC2 what a network configuration names. EC2's refusal is a [cluster.Error].
type Networks interface {
	CheckSubnets(ctx context.Context, ids []string) error
	CheckSecurityGroups(ctx context.Context, ids []string) error
}

// networks refuses subnets and security groups that do not exist, as ECS does. Those that were
// found are not looked up again.
type networks struct {
	ec2   Networks
	log   *slog.Logger
	found cache[struct{}] // by the id
}

// check refuses a network in ECS's words. If EC2 cannot be asked, the network passes: ECS names
// what is missing when it starts the tasks, and a service of known subnets must not wait for EC2.
func (n *networks) check(ctx context.Context, of *cluster.Network) error {
	if of == nil || n.ec2 == nil {
		return nil
	}
	if err := n.checkList(ctx, "subnet", of.Subnets, n.ec2.CheckSubnets); err != nil {
		return err
	}
	return n.checkList(ctx, "security group", of.SecurityGroups, n.ec2.CheckSecurityGroups)
}

func (n *networks) checkList(
	ctx context.Context, kind string, ids []string, check func(context.Context, []string) error,
) error {
	var unknown []string
	for _, id := range ids {
		if _, ok := n.found.get(id); !ok {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	err := check(ctx, unknown)
	var refused *cluster.Error
	switch {
	case errors.As(err, &refused) && strings.HasPrefix(string(refused.Code), "Invalid"):
		return input.Invalid("Error retrieving %s information for [%s]: %s (ErrorCode: %s)", kind,
			strings.Join(ids, ", "), refused.Message, refused.Code)
	case err != nil:
		n.log.WarnContext(ctx, "looking up a network at EC2", "kind", kind, "ids", unknown, "error", err)
		return nil
	}
	for _, id := range unknown {
		n.found.put(id, struct{}{})
	}
	return nil
}

package wire_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
	"berth/shared/wire"
)

// networks is EC2 for the API: it keeps the look-ups, and fails them all if down is set.
type networks struct {
	ec2.Networks
	asked []string
	down  error
}

func (n *networks) CheckSubnets(ctx context.Context, ids []string) error {
	n.asked = append(n.asked, ids...)
	if n.down != nil {
		return n.down
	}
	return n.Networks.CheckSubnets(ctx, ids)
}

// newBerthWith returns an API that looks networks up at n, and what logs to the test.
func newBerthWith(t *testing.T, n *networks) *berth {
	return newBerth(t, func(o *wire.ServerOptions) {
		o.Networks, o.Logger = n, slog.New(slog.NewTextHandler(t.Output(), nil))
	})
}

// network returns a network configuration of subnets, and of security groups after a "|".
func network(ids string) *types.NetworkConfiguration {
	subnets, groups, _ := strings.Cut(ids, "|")
	return &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
		Subnets: strings.Split(subnets, ","), SecurityGroups: strings.FieldsFunc(groups, func(r rune) bool {
			return r == ','
		})}}
}

// Each operation that takes a network refuses a subnet or a security group that EC2 does not have,
// and changes nothing.
func TestUnknownNetworksAreRefused(t *testing.T) {
	operations := map[string]func(b *berth, n *types.NetworkConfiguration) error{
		"CreateService": func(b *berth, n *types.NetworkConfiguration) error {
			_, err := b.CreateService(t.Context(), &ecs.CreateServiceInput{Cluster: new("prod"),
				ServiceName:    new("new"),
				TaskDefinition: new("shop"), DesiredCount: new(int32(1)), NetworkConfiguration: n})
			return err
		},
		"UpdateService": func(b *berth, n *types.NetworkConfiguration) error {
			_, err := b.UpdateService(t.Context(), &ecs.UpdateServiceInput{Cluster: new("prod"), Service: new("web"),
				NetworkConfiguration: n})
			return err
		},
		"CreateTaskSet": func(b *berth, n *types.NetworkConfiguration) error {
			_, err := b.CreateTaskSet(t.Context(), &ecs.CreateTaskSetInput{Cluster: new("prod"), Service: new("web"),
				TaskDefinition: new("shop"), NetworkConfiguration: n})
			return err
		},
		"RunTask": func(b *berth, n *types.NetworkConfiguration) error {
			_, err := b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop"),
				NetworkConfiguration: n})
			return err
		},
		"StartTask": func(b *berth, n *types.NetworkConfiguration) error {
			_, err := b.StartTask(t.Context(), &ecs.StartTaskInput{Cluster: new("prod"), TaskDefinition: new("shop"),
				ContainerInstances: []string{"0a"}, NetworkConfiguration: n})
			return err
		},
	}
	for ids, want := range map[string]string{
		"fake": "Error retrieving subnet information for [fake]: The subnet ID 'fake' does not exist " +
			"(ErrorCode: InvalidSubnetID.NotFound)",
		"subnet-1,a,b": "Error retrieving subnet information for [subnet-1, a, b]: The subnet IDs 'a, b' do not exist " +
			"(ErrorCode: InvalidSubnetID.NotFound)",
		"subnet-1|fake": "Error retrieving security group information for [fake]: The security group 'fake' does " +
			"not exist (ErrorCode: InvalidGroup.NotFound)",
	} {
		for name, call := range operations {
			t.Run(name+"/"+ids, func(t *testing.T) {
				b := newBerthWith(t, &networks{})
				b.create(t)
				b.scheduler.lastMade.Name, b.scheduler.lastSpec.TaskDefinition = "", ""
				err := call(b, network(ids))
				refused(t, err, "InvalidParameterException", want)
				if s := b.scheduler; s.lastMade.Name != "" || s.lastSpec.TaskDefinition != "" || s.lastEdit.Name != "" {
					t.Errorf("the scheduler was asked: %+v %+v %+v", s.lastMade, s.lastSpec, s.lastEdit)
				}
			})
		}
	}
}

// Subnets that were found are not looked up again, a repeated call is answered before any look-up,
// and without EC2's answer a network passes.
func TestNetworksAreLookedUpOnce(t *testing.T) {
	n := &networks{}
	b := newBerthWith(t, n)
	makeAt := func(name, ids string) {
		b.create(t, func(in *ecs.CreateServiceInput) {
			in.ServiceName, in.ClientToken, in.NetworkConfiguration = new(name), new(name), network(ids)
		})
	}
	makeAt("a", "subnet-1,subnet-2")
	makeAt("b", "subnet-2,subnet-3")
	if want := []string{"subnet-1", "subnet-2", "subnet-3"}; !slices.Equal(n.asked, want) {
		t.Errorf("looked up %q, want %q", n.asked, want)
	}
	n.down = errors.New("no answer")
	makeAt("c", "subnet-4")
	n.down = cluster.Errorf("UnauthorizedOperation", "You are not authorized to perform this operation.")
	makeAt("d", "subnet-4")
	n.down = nil
	makeAt("e", "subnet-4")
	if got := n.asked[3:]; !slices.Equal(got, []string{"subnet-4", "subnet-4", "subnet-4"}) {
		t.Errorf("looked up %q: what was not answered is looked up again", got)
	}
}

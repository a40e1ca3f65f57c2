package installation_test

import (
	"fmt"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
)

const home = "home"

// scaled is an installation on a virtual clock, with a group of up to 20 m5.large and a capacity
// provider on it.
func scaled(t *testing.T, tags map[string]string) *installation.Installation {
	t.Helper()
	i, err := installation.Open(installation.Options{
		Loop: embedded.NewVirtualLoop(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), Seed: 1,
		Account: cluster.Account{ID: "123456789012", Region: "eu-west-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"CreateCluster", `{"clusterName":"home"}`},
		{"RegisterTaskDefinition",
			`{"family":"web","containerDefinitions":[{"name":"app","image":"app","cpu":512,"memory":1024}]}`},
	} {
		if status, answer := i.AWS.ECS.Endpoint().ServeOperation(t.Context(), c[0], []byte(c[1])); status != 200 {
			t.Fatalf("%s: %s", c[0], answer)
		}
	}
	arn, err := i.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: "group", Cluster: home,
		Machine: ec2.Machine{Type: "m5.large"}, Max: 20, Protects: true,
		Tags: map[string]string{handler.OwnerTag: installation.Name}})
	if err != nil {
		t.Fatal(err)
	}
	p := &cluster.CapacityProvider{Name: "p", Group: "group", GroupARN: arn, Protection: true, Draining: true,
		Scaling: cluster.DefaultScaling, Tags: tags}
	p.Scaling.Enabled = true
	if err := i.API.Clusters.ClusterCreated(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	if _, err := i.API.CapacityProviders.CreateCapacityProvider(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := i.API.ClusterProviders.PutClusterProviders(t.Context(), home, []string{"p"},
		[]cluster.ProviderShare{{Provider: "p", Weight: 1}}); err != nil {
		t.Fatal(err)
	}
	return i
}

func run(i *installation.Installation, d time.Duration) { i.Loop.RunUntil(i.Loop.Now().Add(d)) }

func desired(t *testing.T, i *installation.Installation, n int) {
	t.Helper()
	if _, err := i.API.Services.UpdateService(t.Context(),
		operation.UpdateService{Cluster: home, Name: "web", Desired: &n}); err != nil {
		t.Fatal(err)
	}
}

func group(t *testing.T, i *installation.Installation) *cluster.AutoScalingGroup {
	t.Helper()
	got, err := i.AWS.Groups.DescribeGroups(t.Context(), []string{"group"})
	if err != nil || len(got) != 1 {
		t.Fatalf("groups %v, %v", got, err)
	}
	return got[0]
}

func running(t *testing.T, i *installation.Installation) int {
	t.Helper()
	got, _, err := i.API.Services.DescribeServices(t.Context(), home, []string{"web"})
	if err != nil || len(got) != 1 {
		t.Fatalf("services %v, %v", got, err)
	}
	return got[0].Service.Running
}

func create(t *testing.T, i *installation.Installation, n int) {
	t.Helper()
	if _, err := i.API.Services.CreateService(t.Context(),
		operation.CreateService{Cluster: home, Name: "web", TaskDefinition: "web", Desired: &n}); err != nil {
		t.Fatal(err)
	}
}

// settled checks that all tasks run, on as few instances as they need: four fit on an m5.large.
func settled(t *testing.T, i *installation.Installation, tasks, instances int) {
	t.Helper()
	if n, g := running(t, i), group(t, i); n != tasks || g.Desired != instances || len(g.Instances) != instances {
		t.Fatalf("%d tasks run on %d instances of %d, want %d on %d", n, len(g.Instances), g.Desired, tasks, instances)
	}
}

func TestManagedScaling(t *testing.T) {
	t.Run("FollowsTheLoad", func(t *testing.T) {
		i := scaled(t, nil)
		run(i, 5*time.Minute)
		settledGroup := group(t, i)
		if settledGroup.Desired != 0 {
			t.Fatalf("an empty cluster has %d instances", settledGroup.Desired)
		}
		create(t, i, 24)
		run(i, 30*time.Minute)
		settled(t, i, 24, 6)
		desired(t, i, 40)
		run(i, 30*time.Minute)
		settled(t, i, 40, 10)
		desired(t, i, 0)
		run(i, 90*time.Minute)
		settled(t, i, 0, 0)
	})
	t.Run("FailedAndSlowLaunchesDelayOnly", func(t *testing.T) {
		i := scaled(t, nil)
		i.AWS.Groups.SetLaunchFaults(func(_ string, n int64) autoscaling.LaunchFault {
			return map[int64]autoscaling.LaunchFault{
				1: {Reason: "InsufficientInstanceCapacity"}, 2: {Slow: 4 * time.Minute}, 3: {Zone: "eu-west-1z"},
			}[n]
		})
		create(t, i, 16)
		run(i, 45*time.Minute)
		if n := running(t, i); n != 16 {
			t.Fatalf("%d tasks run, want 16: %s", n, fmt.Sprint(group(t, i)))
		}
	})
	t.Run("ConsolidationEmptiesWhatIsHalfFull", func(t *testing.T) {
		i := scaled(t, map[string]string{cluster.TagConsolidation: "true", cluster.TagConsolidationPercent: "50"})
		create(t, i, 24)
		run(i, 30*time.Minute)
		settled(t, i, 24, 6)
		desired(t, i, 12)
		run(i, 3*time.Hour)
		settled(t, i, 12, 3)
	})
}

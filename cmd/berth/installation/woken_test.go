package installation_test

import (
	"fmt"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/state"
)

// secondsUntil lets time pass until the condition holds, a minute at most, and returns how long that
// took.
func secondsUntil(i *installation.Installation, is func() bool) time.Duration {
	began := i.Loop.Now()
	for !is() && i.Loop.Now().Sub(began) < time.Minute {
		run(i, 100*time.Millisecond)
	}
	return i.Loop.Now().Sub(began)
}

// Tasks that find no instance ask for one at once if the provider's tag says so, and at the minute's
// look otherwise (C3).
func TestScaleOutIsWoken(t *testing.T) {
	for name, c := range map[string]struct {
		tags  map[string]string
		least time.Duration
		most  time.Duration
	}{
		"Immediate": {map[string]string{cluster.TagScaleOut: "immediate"}, time.Second, 4 * time.Second},
		"Default":   {nil, 10 * time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			for _, phase := range []time.Duration{0, 1300 * time.Millisecond, 7 * time.Second, 40 * time.Second} {
				i := scaled(t, c.tags)
				run(i, time.Minute+phase)
				create(t, i, 50)
				waiting := secondsUntil(i, func() bool { return pendingTasks(t, i) == 50 })
				asked := waiting + secondsUntil(i, func() bool { return group(t, i).Desired > 0 })
				t.Logf("50 tasks wait after %s, and ask for machines after %s", waiting, asked)
				if c.tags != nil && asked-waiting > 3*time.Second {
					t.Errorf("machines are asked for %s after the tasks began to wait, want 3 s at most", asked-waiting)
				}
				if asked < c.least || asked > c.most {
					t.Errorf("machines are asked for %s after the call, want %s to %s", asked, c.least, c.most)
				}
				if n := group(t, i).Desired; n != 2 {
					t.Errorf("desired capacity %d, want 2", n)
				}
			}
		})
	}
}

func pendingTasks(t *testing.T, i *installation.Installation) int {
	t.Helper()
	got, _, err := i.API.Services.DescribeServices(t.Context(), home, []string{"web"})
	if err != nil || len(got) != 1 {
		t.Fatalf("services %v, %v", got, err)
	}
	return got[0].Service.Pending
}

// Once an instance has registered, the tasks that wait for it run without the minute's look.
func TestRegisteredInstancesAreWoken(t *testing.T) {
	i := scaled(t, map[string]string{cluster.TagScaleOut: "immediate"})
	run(i, 61*time.Second)
	create(t, i, 4)
	registered := func() bool {
		got, err := i.Store.List(t.Context(), state.Prefix(home, state.PrefixInstance))
		if err != nil {
			t.Fatal(err)
		}
		return len(got) > 0
	}
	launched := secondsUntil(i, registered)
	ran := secondsUntil(i, func() bool { return running(t, i) == 4 })
	t.Logf("an instance is registered after %s, and its tasks run %s later", launched, ran)
	if ran > 10*time.Second {
		t.Errorf("the tasks run %s after an instance has registered", ran)
	}
}

// A call of the API wakes managed scaling: a provider is ACTIVE, attached, detached and deleted
// within seconds. So many calls in a row cannot all come just before the schedule.
func TestCapacityProvidersAreWoken(t *testing.T) {
	i := scaled(t, nil)
	run(i, 10*time.Second)
	status := func(name string) cluster.ProviderStatus {
		got, _, err := i.API.CapacityProviders.DescribeCapacityProviders(t.Context(), []string{name})
		if err != nil || len(got) != 1 {
			t.Fatalf("providers %v, %v", got, err)
		}
		return got[0].UpdateStatus
	}
	attached := func() bool {
		got, err := i.API.ClusterProviders.ClusterAttachments(t.Context(), home)
		if err != nil {
			t.Fatal(err)
		}
		return got.Attached.Status == cluster.AttachmentsComplete
	}
	for n := range 3 {
		name := fmt.Sprint("q", n)
		arn, err := i.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: name, Cluster: home,
			Machine: ec2.Machine{Type: "m5.large"}, Max: 20, Protects: true,
			Tags: map[string]string{handler.OwnerTag: installation.Name}})
		if err != nil {
			t.Fatal(err)
		}
		p := &cluster.CapacityProvider{Name: name, Group: name, GroupARN: arn, Scaling: cluster.DefaultScaling}
		p.Scaling.Enabled = true
		if _, err := i.API.CapacityProviders.CreateCapacityProvider(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		awaitWithin(t, i, "it is ACTIVE", func() bool { return status(name) == cluster.ProviderCreated })
		for _, names := range [][]string{{"p", name}, {"p"}} {
			if _, err := i.API.ClusterProviders.PutClusterProviders(t.Context(), home, names,
				[]cluster.ProviderShare{{Provider: "p", Weight: 1}}); err != nil {
				t.Fatal(err)
			}
			awaitWithin(t, i, "the attachments are complete", attached)
		}
		if _, err := i.API.CapacityProviders.DeleteCapacityProvider(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		awaitWithin(t, i, "it is deleted", func() bool { return status(name) == cluster.ProviderDeleted })
	}
	if _, err := i.API.CapacityProviders.UpdateCapacityProvider(t.Context(),
		operation.UpdateCapacityProvider{Name: "p", Draining: new(false)}); err != nil {
		t.Fatal(err)
	}
	awaitWithin(t, i, "it is attached again", attached)
}

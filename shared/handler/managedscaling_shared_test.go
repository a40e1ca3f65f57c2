package handler_test

import (
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// newShared returns a world in which the clusters prod and other both have the provider, without
// managed scaling and with managed draining. Its instances are prod's.
func newShared(t *testing.T) *scaled {
	t.Helper()
	s := newScaled(t, func(p *cluster.CapacityProvider) { p.Protection, p.Scaling.Enabled = false, false })
	s.groups["g"].Min, s.groups["g"].Desired = 2, 2
	s.minute(1)
	s.ecs.clusters["other"] = true
	if err := s.api.Clusters.ClusterCreated(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	s.attachOther(t, "p")
	s.minute(2)
	return s
}

// attachOther associates providers with the cluster other.
func (s *scaled) attachOther(t *testing.T, names ...string) {
	t.Helper()
	if _, err := s.api.ClusterProviders.PutClusterProviders(ctx, "other", names, nil); err != nil {
		t.Fatal(err)
	}
}

// wantHooked compares how many clusters have the provider, and how many lifecycle hooks its group
// has.
func (s *scaled) wantHooked(t *testing.T, clusters, hooks int) {
	t.Helper()
	want(t, "clusters", len(s.described(t, "p").Clusters), clusters)
	want(t, "hooks", len(s.hooks), hooks)
}

// lose deletes a cluster.
func (s *scaled) lose(t *testing.T, name string) {
	t.Helper()
	s.ecs.clusters[name] = false
	if err := s.api.Clusters.ClusterDeleted(ctx, name); err != nil {
		t.Fatal(err)
	}
}

// Without managed scaling several clusters may have one provider (C6, C7).
func TestManagedScaling_OfSeveralClusters(t *testing.T) {
	t.Run("OnlyTheInstancesOwnClusterCompletesIt", func(t *testing.T) {
		s := newShared(t)
		s.run(t, operation.SubmitTasks{Count: 2}) // standalone ones stay on a DRAINING instance
		s.minute(1)
		task := s.with(cluster.TaskRunning)[0]
		gone := task.Instance[len("h-"):]
		if err := s.TerminateInstance(ctx, gone, false); err != nil {
			t.Fatal(err)
		}
		s.minute(5)
		if slices.Contains(s.calls, "complete "+gone) {
			t.Fatal("the termination was completed, and a task runs there")
		}
		want(t, "status", s.ecs.instances["h-"+gone].Status, cluster.InstanceDraining)
		for _, x := range s.with(cluster.TaskRunning) {
			if x.Instance == task.Instance {
				s.ecs.exit(x.ECSID, 0)
			}
		}
		s.minute(2)
		if !slices.Contains(s.calls, "complete "+gone) {
			t.Fatalf("the termination hangs: %q", s.calls)
		}
	})
	t.Run("TheLastOneRemovesTheHook", func(t *testing.T) {
		s := newShared(t)
		s.attachOther(t)
		s.minute(2)
		s.wantHooked(t, 1, 1)
		s.attach(t)
		s.minute(2)
		s.wantHooked(t, 0, 0)
	})
	t.Run("TheHookOutlivesADeletedCluster", func(t *testing.T) {
		s := newShared(t)
		s.lose(t, "other")
		s.minute(2)
		s.wantHooked(t, 1, 1)
	})
	t.Run("ThatBothReleaseAtOnce", func(t *testing.T) {
		s := newShared(t)
		s.attachOther(t)
		s.attach(t)
		s.minute(3)
		s.wantHooked(t, 0, 0)
	})
	t.Run("AndBothAreDeleted", func(t *testing.T) {
		s := newShared(t)
		s.lose(t, prod)
		s.lose(t, "other")
		s.look(t)
		s.look(t)
		s.wantHooked(t, 0, 0)
	})
}

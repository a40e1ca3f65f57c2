package handler_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// A cluster keeps and shows providers of Fargate. No task can use them.
func TestAPI_FargateProviders(t *testing.T) {
	begin := func(t *testing.T, names []string, strategy ...cluster.ProviderShare) (*world,
		*operation.ClusterAttachments) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		a, err := w.api.ClusterProviders.PutClusterProviders(ctx, prod, names, strategy)
		if err != nil {
			t.Fatal(err)
		}
		return w, a
	}
	spot := cluster.ProviderShare{Provider: "FARGATE_SPOT", Weight: 1}
	t.Run("AreAttachedAtOnce", func(t *testing.T) {
		w, a := begin(t, cluster.FargateProviders, spot)
		want(t, "status", a.Attached.Status, cluster.AttachmentsComplete)
		wantCount(t, "providers", a.Attached.Providers, 2)
		wantCount(t, "rows", a.Rows, 0)
		if a, err := w.api.ClusterProviders.PutClusterProviders(ctx, prod, nil, nil); err != nil ||
			a.Attached.Status != cluster.AttachmentsComplete {
			t.Errorf("removing them: %+v, %v", a, err)
		}
	})
	t.Run("StandBesideOthers", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		a, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, []string{"FARGATE", "p"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, "rows", a.Rows, 1)
		s.minute(2)
		a, err = s.api.ClusterProviders.ClusterAttachments(ctx, prod)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "status", a.Attached.Status, cluster.AttachmentsComplete)
		want(t, "problems", len(a.Attached.AttachmentProblems), 0)
	})
	t.Run("AsTheDefaultStrategyAreRefused", func(t *testing.T) {
		w, _ := begin(t, cluster.FargateProviders, spot)
		spec := operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(1)}
		_, err := w.api.Services.CreateService(ctx, spec)
		wantCode(t, err, cluster.CodeUnsupported, "default capacity provider strategy of cluster prod has FARGATE_SPOT")
		_, _, err = w.api.Tasks.SubmitTasks(ctx, complete(operation.SubmitTasks{}))
		wantCode(t, err, cluster.CodeUnsupported, "FARGATE_SPOT")
		spec.Launched = true
		if _, err := w.api.Services.CreateService(ctx, spec); err != nil {
			t.Errorf("with a launch type: %v", err)
		}
	})
	t.Run("AreDescribedAndCannotBeChanged", func(t *testing.T) {
		w := newWorld(t)
		all, missing, err := w.api.CapacityProviders.DescribeCapacityProviders(ctx, nil)
		if err != nil || len(missing) > 0 || len(all) != 2 {
			t.Fatalf("described %v, missing %v, %v", all, missing, err)
		}
		named, missing, err := w.api.CapacityProviders.DescribeCapacityProviders(ctx, []string{"FARGATE", "none"})
		if err != nil || len(missing) != 1 || len(named) != 1 || named[0].Name != "FARGATE" {
			t.Errorf("described %v, missing %v, %v", named, missing, err)
		}
		_, err = w.api.CapacityProviders.DeleteCapacityProvider(ctx, "FARGATE")
		wantCode(t, err, cluster.CodeClient, "reserved by AWS")
		_, err = w.api.CapacityProviders.UpdateCapacityProvider(ctx, operation.UpdateCapacityProvider{Name: "FARGATE"})
		wantCode(t, err, cluster.CodeClient, "reserved by AWS")
		err = w.api.CapacityProviders.TagCapacityProvider(ctx, "FARGATE", map[string]string{"a": "b"}, nil)
		wantCode(t, err, cluster.CodeClient, "reserved by AWS")
		tags, err := w.api.CapacityProviders.CapacityProviderTags(ctx, "FARGATE")
		if err != nil || len(tags) > 0 {
			t.Errorf("tags %v, %v", tags, err)
		}
	})
}

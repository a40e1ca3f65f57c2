package ecsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/answer"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// clusterOperations answers the operations on clusters. ECS keeps clusters; Berth adds the services
// and capacity providers, which ECS does not know.
type clusterOperations struct {
	input.References
	ecs       upstream
	clusters  Clusters
	providers ClusterProviders
	settings  AccountSettings
}

func (o *clusterOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"CreateCluster":    o.createCluster,
		"DescribeClusters": forwardRead(o.ecs, "DescribeClusters", o.checkClusters, o.completeClusters),
		"ListClusters":     forwardRead(o.ecs, "ListClusters", nil, o.listManaged),
		"UpdateCluster": forwardOperation(o.ecs, "UpdateCluster", o.checkUpdateCluster,
			func(ctx context.Context, _ *ecs.UpdateClusterInput, body []byte) ([]byte, error) {
				return o.completeAnswer(ctx, body)
			}),
		"UpdateClusterSettings": forwardOperation(o.ecs, "UpdateClusterSettings", o.checkUpdateSettings,
			func(ctx context.Context, _ *ecs.UpdateClusterSettingsInput, body []byte) ([]byte, error) {
				return o.completeAnswer(ctx, body)
			}),
		"DeleteCluster": forwardOperation(o.ecs, "DeleteCluster", o.checkDeleteCluster, o.noteDeletedCluster),

		"PutClusterCapacityProviders": o.putClusterCapacityProviders,
	}
}

// createCluster creates a cluster with capacity providers, which only Berth knows:
//
//  1. The providers are checked, so that no cluster is left behind without the ones that were
//     asked for.
//  2. ECS creates the cluster, from the request without its providers.
//  3. The providers are associated with it, and shown in ECS's answer.
//
// A cluster that exists keeps the providers that it has: ECS returns an existing cluster unchanged,
// too.
func (o *clusterOperations) createCluster(ctx context.Context, body []byte) (any, error) {
	in := new(ecs.CreateClusterInput)
	if err := awsjson.DecodeForwarded(body, in); err != nil {
		return nil, err
	}
	body, err := withInsights(ctx, o.Account, o.settings, in, body)
	if err != nil {
		return nil, err
	}
	pass := forwardOperation(o.ecs, "CreateCluster", checkCreateCluster, o.noteCreatedCluster)
	if len(in.CapacityProviders)+len(in.DefaultCapacityProviderStrategy) == 0 {
		return pass(ctx, body)
	}
	if body, err = withoutProviders(body); err != nil {
		return nil, err
	}
	name, err := o.ClusterName(in.ClusterName)
	if err != nil {
		return nil, err
	}
	names, strategy, err := parseClusterProviders(o.References, in.CapacityProviders,
		in.DefaultCapacityProviderStrategy)
	if err != nil {
		return nil, err
	}
	if err := o.providers.CheckClusterProviders(ctx, name, names, strategy); err != nil {
		return nil, err
	}
	out, err := pass(ctx, body)
	raw, ok := out.(awsjson.Raw)
	if err != nil || !ok || raw.Status != http.StatusOK {
		return out, err
	}
	a, err := o.providers.ClusterAttachments(ctx, name)
	// Providers that another call has set meanwhile, or that the cluster had, stay.
	if err == nil && a.Attached.Rev == 0 {
		_, err = o.providers.PutClusterProviders(ctx, name, names, strategy)
	}
	if err != nil {
		return nil, err
	}
	raw.Body, err = o.completeAnswer(ctx, raw.Body)
	return raw, err
}

// withoutProviders returns the body of a CreateCluster for ECS, which would refuse providers that it
// does not know. Everything else is forwarded as it came, so that members unknown to this SDK reach
// ECS; in what stays here they are refused.
func withoutProviders(body []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	own := map[string]json.RawMessage{}
	for _, member := range []string{"capacityProviders", "defaultCapacityProviderStrategy"} {
		if value, ok := members[member]; ok {
			own[member] = value
			delete(members, member)
		}
	}
	kept, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	if err := awsjson.DecodeInput(kept, new(ecs.CreateClusterInput)); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// noteCreatedCluster makes a new cluster known to Berth.
func (o *clusterOperations) noteCreatedCluster(
	ctx context.Context, in *ecs.CreateClusterInput, body []byte,
) ([]byte, error) {
	name, err := o.ClusterName(in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := o.clusters.ClusterCreated(ctx, name); err != nil {
		return nil, err
	}
	return o.completeAnswer(ctx, body)
}

// checkClusters accepts up to 100 clusters of this account and Region.
func (o *clusterOperations) checkClusters(_ context.Context, in *ecs.DescribeClustersInput) error {
	if len(in.Clusters) > 100 {
		return input.Invalid("clusters cannot have more than 100 items.")
	}
	for _, ref := range in.Clusters {
		if _, err := o.ClusterName(&ref); err != nil {
			return err
		}
	}
	for _, field := range in.Include {
		if err := input.CheckOneOf("include", field); err != nil {
			return err
		}
	}
	return nil
}

// completeClusters adds to ECS's descriptions what Berth knows: counts of services and tasks, and
// capacity providers. Clusters that Berth does not manage become MISSING.
func (o *clusterOperations) completeClusters(
	ctx context.Context, in *ecs.DescribeClustersInput, body []byte,
) ([]byte, error) {
	managed, err := o.clusters.ManagedClusters(ctx)
	if err != nil {
		return nil, err
	}
	include := make([]string, 0, len(in.Include))
	for _, field := range in.Include {
		include = append(include, string(field))
	}
	return answer.Edit(body, func(out answer.Object) error {
		clusters, failures := []any{}, []any{}
		for _, f := range out.Objects("failures") {
			failures = append(failures, f)
		}
		for _, c := range out.Objects("clusters") {
			name := c.Text("clusterName")
			// A deleted cluster has no owner, and the caller who deleted it waits to see it
			// INACTIVE.
			if c.Text("status") != "INACTIVE" && !slices.Contains(managed, name) {
				failures = append(failures, answer.Object{"arn": o.Account.ARN("cluster", name), "reason": "MISSING"})
				continue
			}
			if err := o.completeCluster(ctx, c, include); err != nil {
				return err
			}
			clusters = append(clusters, c)
		}
		out["clusters"], out["failures"] = clusters, failures
		return nil
	})
}

// everyField has the fields of a cluster that answers to changes of it always show.
var everyField = []string{"ATTACHMENTS", "CONFIGURATIONS", "SETTINGS", "TAGS"}

// completeAnswer completes ECS's answer to a change of one cluster.
func (o *clusterOperations) completeAnswer(ctx context.Context, body []byte) ([]byte, error) {
	return answer.Edit(body, func(out answer.Object) error {
		c := out.Object("cluster")
		if c == nil {
			return errors.New("ECS named no cluster")
		}
		return o.completeCluster(ctx, c, everyField)
	})
}

// completeCluster completes one cluster. Berth forgets a cluster when ECS deletes it, so only
// ACTIVE ones have counts and capacity providers.
func (o *clusterOperations) completeCluster(ctx context.Context, c answer.Object, include []string) (err error) {
	view := &answer.ClusterView{Include: include}
	if name := c.Text("clusterName"); c.Text("status") == "ACTIVE" {
		if view.Counts, err = o.clusters.ClusterCounts(ctx, name); err != nil {
			return err
		}
		if view.Attached, err = o.attachedMembers(ctx, name); err != nil {
			return err
		}
	}
	answer.Cluster(c, view)
	return nil
}

// listManaged leaves out of ECS's list the clusters that Berth does not manage.
func (o *clusterOperations) listManaged(ctx context.Context, _ *ecs.ListClustersInput, body []byte) ([]byte, error) {
	managed, err := o.clusters.ManagedClusters(ctx)
	if err != nil {
		return nil, err
	}
	return answer.Edit(body, func(out answer.Object) error {
		arns := []any{}
		all, _ := out["clusterArns"].([]any)
		for _, arn := range all {
			if s, _ := arn.(string); slices.Contains(managed, cluster.LastPart(s)) {
				arns = append(arns, arn)
			}
		}
		out["clusterArns"] = arns
		return nil
	})
}

// checkUpdateCluster accepts any settings: they concern only what ECS does, such as Container
// Insights.
func (o *clusterOperations) checkUpdateCluster(ctx context.Context, in *ecs.UpdateClusterInput) error {
	_, err := o.managedCluster(ctx, in.Cluster)
	return err
}

// checkUpdateSettings accepts any settings, as UpdateCluster does, but wants some.
func (o *clusterOperations) checkUpdateSettings(ctx context.Context, in *ecs.UpdateClusterSettingsInput) error {
	if in.Settings == nil {
		return input.Invalid("settings must not be empty.")
	}
	_, err := o.managedCluster(ctx, in.Cluster)
	return err
}

// managedCluster reads the name of a cluster, which must be given and be one that Berth manages.
func (o *clusterOperations) managedCluster(ctx context.Context, ref *string) (string, error) {
	if err := input.CheckRequired("cluster", ref); err != nil {
		return "", err
	}
	name, err := o.ClusterName(ref)
	if err != nil {
		return "", err
	}
	return name, o.clusters.CheckManaged(ctx, name)
}

// checkDeleteCluster refuses a cluster with services or tasks of Berth's, which ECS would delete.
func (o *clusterOperations) checkDeleteCluster(ctx context.Context, in *ecs.DeleteClusterInput) error {
	name, err := o.managedCluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	return o.clusters.CheckDeletable(ctx, name)
}

// noteDeletedCluster removes what Berth keeps of the cluster.
func (o *clusterOperations) noteDeletedCluster(
	ctx context.Context, in *ecs.DeleteClusterInput, body []byte,
) ([]byte, error) {
	name, err := o.ClusterName(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := o.clusters.ClusterDeleted(ctx, name); err != nil {
		return nil, err
	}
	return o.completeAnswer(ctx, body)
}

// attachedMembers returns the members of a cluster that its capacity providers contribute. They are
// encoded as an answer first, so that names and omissions follow the protocol.
func (o *clusterOperations) attachedMembers(ctx context.Context, name string) (out answer.Object, err error) {
	a, err := o.providers.ClusterAttachments(ctx, name)
	if err != nil || a.Attached.Rev == 0 {
		return nil, err
	}
	// The encoder writes whole answers, so the cluster is encoded as the only one of an answer.
	of := attachmentsShape(name, a)
	body, err := awsjson.EncodeOutput("DescribeClusters", &ecs.DescribeClustersOutput{Clusters: []types.Cluster{of}})
	if err != nil {
		return nil, err
	}
	_, err = answer.Edit(body, func(encoded answer.Object) error {
		out = answer.Object{}
		for _, key := range []string{"capacityProviders", "defaultCapacityProviderStrategy", "attachments",
			"attachmentsStatus"} {
			if v, ok := encoded.Objects("clusters")[0][key]; ok {
				out[key] = v
			}
		}
		return nil
	})
	return out, err
}

// checkCreateCluster checks the name, before Berth and ECS could disagree on it, and the tags.
func checkCreateCluster(_ context.Context, in *ecs.CreateClusterInput) error {
	if name := input.Value(in.ClusterName); name != "" && !input.IsName(name) {
		return input.Invalid("Invalid cluster name: it must have 1 to 255 letters, digits, hyphens and underscores.")
	}
	_, err := checkTags(in.Tags, nil)
	return err
}

// putClusterCapacityProviders replaces a cluster's capacity providers. Both lists must be given, if
// only empty, as with ECS.
func (o *clusterOperations) putClusterCapacityProviders(
	ctx context.Context, body []byte,
) (any, error) {
	in := new(ecs.PutClusterCapacityProvidersInput)
	if err := awsjson.DecodeInput(body, in); err != nil {
		return nil, err
	}
	if err := input.CheckRequired("cluster", in.Cluster); err != nil {
		return nil, err
	}
	name, err := o.ClusterName(in.Cluster)
	if err != nil {
		return nil, err
	}
	switch {
	case in.CapacityProviders == nil:
		return nil, input.Invalid("capacityProviders must be given; an empty list takes all away.")
	case in.DefaultCapacityProviderStrategy == nil:
		return nil, input.Invalid("defaultCapacityProviderStrategy must be given; an empty list takes it away.")
	}
	names, strategy, err := parseClusterProviders(o.References, in.CapacityProviders,
		in.DefaultCapacityProviderStrategy)
	if err != nil {
		return nil, err
	}
	if _, err := o.providers.PutClusterProviders(ctx, name, names, strategy); err != nil {
		return nil, err
	}
	return o.describeChanged(ctx, name)
}

// describeChanged answers a change of a cluster that ECS took no part in, with ECS's description of
// the cluster.
func (o *clusterOperations) describeChanged(ctx context.Context, name string) (any, error) {
	in, err := json.Marshal(map[string]any{"clusters": []string{name}, "include": everyField})
	if err != nil {
		return nil, err
	}
	status, body, err := o.ecs.Forward(ctx, "DescribeClusters", in)
	switch {
	case err != nil:
		return nil, fmt.Errorf("describing cluster %s: %w", name, err)
	case status != http.StatusOK:
		return nil, decodeError(status, body)
	}
	body, err = answer.Edit(body, func(out answer.Object) error {
		for _, c := range out.Objects("clusters") {
			if c.Text("clusterName") == name {
				clear(out)
				out["cluster"] = map[string]any(c)
				return o.completeCluster(ctx, c, everyField)
			}
		}
		return fmt.Errorf("describing cluster %s: ECS does not have it", name)
	})
	return awsjson.Raw{Status: status, Body: body}, err
}

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
}

func (o *clusterOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"CreateCluster":    o.createCluster,
		"DescribeClusters": forwardRead(o.ecs, "DescribeClusters", o.checkClusters, o.countServices),
		"ListClusters":     forwardRead(o.ecs, "ListClusters", nil, o.listManaged),
		"UpdateCluster":    forwardOperation(o.ecs, "UpdateCluster", o.checkUpdateCluster, nil),
		"DeleteCluster":    forwardOperation(o.ecs, "DeleteCluster", o.checkDeleteCluster, o.noteDeletedCluster),

		"PutClusterCapacityProviders": awsjson.TypedOperation(o.putClusterCapacityProviders),
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
	if err := awsjson.DecodeInput(body, in); err != nil {
		return nil, err
	}
	pass := forwardOperation(o.ecs, "CreateCluster", checkCreateCluster, o.noteCreatedCluster)
	if len(in.CapacityProviders)+len(in.DefaultCapacityProviderStrategy) == 0 {
		return pass(ctx, body)
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
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	// ECS would refuse providers that it does not know. Everything else is forwarded as it came, so
	// that members unknown to this SDK reach ECS.
	delete(members, "capacityProviders")
	delete(members, "defaultCapacityProviderStrategy")
	if body, err = json.Marshal(members); err != nil {
		return nil, err
	}
	out, err := pass(ctx, body)
	answer, ok := out.(awsjson.Raw)
	if err != nil || !ok || answer.Status != http.StatusOK {
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
	return o.addProviders(ctx, name, answer)
}

// noteCreatedCluster makes a new cluster known to Berth.
func (o *clusterOperations) noteCreatedCluster(
	ctx context.Context, in *ecs.CreateClusterInput, answer []byte,
) ([]byte, error) {
	name, err := o.ClusterName(in.ClusterName)
	if err != nil {
		return nil, err
	}
	return answer, o.clusters.ClusterCreated(ctx, name)
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
	return nil
}

// countServices replaces ECS's count of services, which is 0, by Berth's, and adds the capacity
// providers. Clusters that Berth does not manage become MISSING. Everything else in ECS's answer
// stays as it is, members unknown to this SDK included: so the answer is edited as JSON.
func (o *clusterOperations) countServices(
	ctx context.Context, _ *ecs.DescribeClustersInput, answer []byte,
) ([]byte, error) {
	managed, err := o.clusters.ManagedClusters(ctx)
	if err != nil {
		return nil, err
	}
	var out map[string]json.RawMessage
	var all, clusters []map[string]json.RawMessage
	var failures []json.RawMessage
	if err := errors.Join(json.Unmarshal(answer, &out), json.Unmarshal(out["clusters"], &all)); err != nil {
		return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
	}
	if out["failures"] != nil {
		if err := json.Unmarshal(out["failures"], &failures); err != nil {
			return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
		}
	}
	for _, c := range all {
		var name, status string
		if err := errors.Join(json.Unmarshal(c["clusterName"], &name),
			json.Unmarshal(c["status"], &status)); err != nil {
			return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
		}
		// Nobody owns a deleted cluster, and whoever has deleted one waits to see it INACTIVE.
		if status != "INACTIVE" && !slices.Contains(managed, name) {
			// strings cannot fail
			missing, _ := json.Marshal(map[string]string{"arn": o.Account.ARN("cluster", name), "reason": "MISSING"})
			failures = append(failures, missing)
			continue
		}
		clusters = append(clusters, c)
		// Berth forgets a cluster when ECS deletes it, so only ACTIVE ones have anything to add.
		if status != "ACTIVE" {
			continue
		}
		n, err := o.clusters.ServiceCount(ctx, name)
		if err != nil {
			return nil, err
		}
		c["activeServicesCount"], _ = json.Marshal(n) // an int cannot fail
		if err := o.addAttachments(ctx, name, c); err != nil {
			return nil, err
		}
	}
	if out["clusters"], err = encodeList(clusters); err != nil {
		return nil, err
	}
	if out["failures"], err = encodeList(failures); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// encodeList encodes a list; an empty one is [], as ECS answers.
func encodeList[T any](list []T) (json.RawMessage, error) {
	if list == nil {
		list = []T{}
	}
	return json.Marshal(list)
}

// listManaged leaves out of ECS's list the clusters that Berth does not manage.
func (o *clusterOperations) listManaged(ctx context.Context, _ *ecs.ListClustersInput, answer []byte) ([]byte, error) {
	managed, err := o.clusters.ManagedClusters(ctx)
	if err != nil {
		return nil, err
	}
	var out map[string]json.RawMessage
	var arns []string
	if err := errors.Join(json.Unmarshal(answer, &out), json.Unmarshal(out["clusterArns"], &arns)); err != nil {
		return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
	}
	arns = slices.DeleteFunc(arns, func(arn string) bool { return !slices.Contains(managed, cluster.LastPart(arn)) })
	if out["clusterArns"], err = encodeList(arns); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// checkUpdateCluster accepts any settings: they concern only what ECS does, such as Container
// Insights.
func (o *clusterOperations) checkUpdateCluster(ctx context.Context, in *ecs.UpdateClusterInput) error {
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
	ctx context.Context, in *ecs.DeleteClusterInput, answer []byte,
) ([]byte, error) {
	name, err := o.ClusterName(in.Cluster)
	if err != nil {
		return nil, err
	}
	return answer, o.clusters.ClusterDeleted(ctx, name)
}

// addProviders puts a cluster's capacity providers into ECS's answer to CreateCluster.
func (o *clusterOperations) addProviders(ctx context.Context, name string, answer awsjson.Raw) (any, error) {
	out := struct {
		Cluster map[string]json.RawMessage `json:"cluster"`
	}{map[string]json.RawMessage{}}
	if err := json.Unmarshal(answer.Body, &out); err != nil {
		return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
	}
	if err := o.addAttachments(ctx, name, out.Cluster); err != nil {
		return nil, err
	}
	body, err := json.Marshal(out)
	return awsjson.Raw{Status: http.StatusOK, Body: body}, err
}

// describeCluster returns a cluster as PutClusterCapacityProviders answers it. Its state is known
// to be ACTIVE, so ECS need not be asked.
func (o *clusterOperations) describeCluster(ctx context.Context, name string) (*types.Cluster, error) {
	a, err := o.providers.ClusterAttachments(ctx, name)
	if err != nil {
		return nil, err
	}
	n, err := o.clusters.ServiceCount(ctx, name)
	if err != nil {
		return nil, err
	}
	out := attachmentsShape(name, a)
	out.ClusterName, out.ClusterArn, out.Status = &name, new(o.Account.ARN("cluster", name)), new("ACTIVE")
	out.ActiveServicesCount = int32(n)
	return &out, nil
}

// addAttachments puts a cluster's capacity providers into c, ECS's description of it. They are
// encoded as an answer first, so that names and omissions follow the protocol.
func (o *clusterOperations) addAttachments(ctx context.Context, name string, c map[string]json.RawMessage) error {
	a, err := o.providers.ClusterAttachments(ctx, name)
	if err != nil || a.Attached.Rev == 0 {
		return err
	}
	// The encoder writes whole answers, so the cluster is encoded as the only one of an answer.
	of := attachmentsShape(name, a)
	body, err := awsjson.EncodeOutput("DescribeClusters", &ecs.DescribeClustersOutput{Clusters: []types.Cluster{of}})
	if err != nil {
		return err
	}
	var out struct {
		Clusters []map[string]json.RawMessage `json:"clusters"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return err
	}
	for _, key := range []string{"capacityProviders", "defaultCapacityProviderStrategy", "attachments",
		"attachmentsStatus"} {
		if v, ok := out.Clusters[0][key]; ok {
			c[key] = v
		}
	}
	return nil
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
	ctx context.Context, in *ecs.PutClusterCapacityProvidersInput,
) (*ecs.PutClusterCapacityProvidersOutput, error) {
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
	answer, err := o.describeCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	return &ecs.PutClusterCapacityProvidersOutput{Cluster: answer}, nil
}

package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// Providers is what Berth does about capacity providers (C7). Names are plain, errors as of [Scheduler].
type Providers interface {
	CreateCapacityProvider(ctx context.Context, p *cluster.CapacityProvider) (*cluster.CapacityProvider, error)
	UpdateCapacityProvider(ctx context.Context, c cluster.ProviderChange) (*cluster.CapacityProvider, error)
	DeleteCapacityProvider(ctx context.Context, name string) (*cluster.CapacityProvider, error)
	// CapacityProviders are those named, or all; those that are not there come as failures.
	CapacityProviders(ctx context.Context, names []string) ([]*cluster.CapacityProvider, []cluster.Failure, error)
	TagCapacityProvider(ctx context.Context, name string, set map[string]string, remove []string) error
	CapacityProviderTags(ctx context.Context, name string) (map[string]string, error)
	PutClusterProviders(ctx context.Context, clusterName string, names []string, strategy []cluster.ProviderShare) (*cluster.ClusterAttachments, error)
	// CheckClusterProviders refuses what PutClusterProviders would for a cluster that is new.
	CheckClusterProviders(ctx context.Context, clusterName string, names []string, strategy []cluster.ProviderShare) error
	Attachments(ctx context.Context, clusterName string) (*cluster.ClusterAttachments, error)
}

// provider is the name of a capacity provider, by name or ARN.
func (r references) provider(ref string) (string, error) {
	name, err := r.resource("capacity-provider", "", ref)
	switch {
	case err != nil:
		return "", err
	case name == "FARGATE" || name == "FARGATE_SPOT":
		return "", unsupported("capacity provider " + name)
	case !providerNames.MatchString(name):
		return "", invalid("The capacity provider name is invalid: %.300q must have 1 to 255 letters, digits, hyphens and underscores.", ref)
	}
	return name, nil
}

// scalingTags check the tags of capacity providers that are Berth's own.
var scalingTags = func() map[string]func(types.Tag) error {
	out := map[string]func(types.Tag) error{}
	for _, key := range cluster.ScalingTags {
		out[key] = func(t types.Tag) error {
			return cluster.ApplyScalingTag(&cluster.ManagedScaling{}, key, value(t.Value))
		}
	}
	return out
}()

func (s *server) createCapacityProvider(ctx context.Context, in *ecs.CreateCapacityProviderInput) (*ecs.CreateCapacityProviderOutput, error) {
	if err := refuse(
		unserved{"managedInstancesProvider", in.ManagedInstancesProvider != nil}, unserved{"cluster", value(in.Cluster) != ""},
	); err != nil {
		return nil, err
	}
	g := in.AutoScalingGroupProvider
	if g == nil {
		return nil, invalid("autoScalingGroupProvider must be given.")
	}
	p := &cluster.CapacityProvider{GroupARN: value(g.AutoScalingGroupArn)}
	var err error
	if p.Name, err = s.provider(value(in.Name)); err != nil {
		return nil, err
	}
	if p.Tags, err = checkTags(in.Tags, scalingTags); err != nil {
		return nil, err
	}
	if p.Group, err = s.groupName(p.GroupARN); err != nil {
		return nil, err
	}
	change, err := providerChange(p.Name, g.ManagedScaling, g.ManagedTerminationProtection, g.ManagedDraining)
	if err != nil {
		return nil, err
	}
	base := cluster.DefaultScaling
	base.Enabled = g.ManagedScaling != nil // as with ECS: without the block managed scaling is off
	if p.Scaling, err = change.Scaling.Apply(base); err != nil {
		return nil, err
	}
	p.Protection = value(change.Protection)
	p.Draining = change.Draining == nil || *change.Draining
	made, err := s.scheduler.CreateCapacityProvider(ctx, p)
	if err != nil {
		return nil, err
	}
	out := s.capacityProvider(made, true)
	return &ecs.CreateCapacityProviderOutput{CapacityProvider: &out}, nil
}

// groupName takes the name out of an Auto Scaling group's ARN, of this account and Region.
func (r references) groupName(arn string) (string, error) {
	parts := strings.SplitN(arn, ":", 8)
	here := strings.SplitN(r.account.ARN("x", "x"), ":", 6)
	const last = "autoScalingGroupName/"
	if len(parts) != 8 || parts[2] != "autoscaling" || parts[3] != here[3] || parts[4] != here[4] || parts[5] != "autoScalingGroup" ||
		!strings.HasPrefix(parts[7], last) || len(parts[7]) == len(last) {
		return "", cluster.Errorf(cluster.CodeClient, "The specified Auto Scaling group ARN is not valid. Ensure that the ARN references an existing Auto Scaling group and try again.")
	}
	return strings.TrimPrefix(parts[7], last), nil
}

func providerChange(name string, scaling *types.ManagedScaling, protection types.ManagedTerminationProtection, draining types.ManagedDraining) (c cluster.ProviderChange, err error) {
	c.Name = name
	if c.Protection, err = enabled("managedTerminationProtection", string(protection)); err != nil {
		return c, err
	}
	if c.Draining, err = enabled("managedDraining", string(draining)); err != nil {
		return c, err
	}
	if scaling == nil {
		return c, nil
	}
	if c.Scaling.Enabled, err = enabled("managedScaling.status", string(scaling.Status)); err != nil {
		return c, err
	}
	c.Scaling.Target, c.Scaling.MinStep = integer(scaling.TargetCapacity), integer(scaling.MinimumScalingStepSize)
	c.Scaling.MaxStep = integer(scaling.MaximumScalingStepSize)
	if w := scaling.InstanceWarmupPeriod; w != nil {
		c.Scaling.Warmup = new(time.Duration(*w) * time.Second)
	}
	return c, nil
}

// enabled reads ENABLED or DISABLED; nil for nothing.
func enabled(member, s string) (*bool, error) {
	switch s {
	case "":
		return nil, nil
	case "ENABLED", "DISABLED":
		return new(s == "ENABLED"), nil
	}
	return nil, invalid("%s is %.64q, expected ENABLED or DISABLED.", member, s)
}

func (s *server) updateCapacityProvider(ctx context.Context, in *ecs.UpdateCapacityProviderInput) (*ecs.UpdateCapacityProviderOutput, error) {
	if err := refuse(
		unserved{"managedInstancesProvider", in.ManagedInstancesProvider != nil}, unserved{"cluster", value(in.Cluster) != ""},
	); err != nil {
		return nil, err
	}
	name, err := s.provider(value(in.Name))
	if err != nil {
		return nil, err
	}
	g := in.AutoScalingGroupProvider
	if g == nil {
		return nil, invalid("autoScalingGroupProvider must be given.")
	}
	change, err := providerChange(name, g.ManagedScaling, g.ManagedTerminationProtection, g.ManagedDraining)
	if err != nil {
		return nil, err
	}
	p, err := s.scheduler.UpdateCapacityProvider(ctx, change)
	if err != nil {
		return nil, err
	}
	out := s.capacityProvider(p, true)
	return &ecs.UpdateCapacityProviderOutput{CapacityProvider: &out}, nil
}

func (s *server) deleteCapacityProvider(ctx context.Context, in *ecs.DeleteCapacityProviderInput) (*ecs.DeleteCapacityProviderOutput, error) {
	if err := refuse(unserved{"cluster", value(in.Cluster) != ""}); err != nil {
		return nil, err
	}
	name, err := s.provider(value(in.CapacityProvider))
	if err != nil {
		return nil, err
	}
	p, err := s.scheduler.DeleteCapacityProvider(ctx, name)
	if err != nil {
		return nil, err
	}
	out := s.capacityProvider(p, true)
	return &ecs.DeleteCapacityProviderOutput{CapacityProvider: &out}, nil
}

// describedProviders is how many providers one page has at most (ECS API reference, DescribeCapacityProviders).
const describedProviders = 10

func (s *server) describeCapacityProviders(ctx context.Context, in *ecs.DescribeCapacityProvidersInput) (*ecs.DescribeCapacityProvidersOutput, error) {
	if len(in.CapacityProviders) > 100 {
		return nil, invalid("capacityProviders cannot have more than 100 items.")
	}
	if err := refuse(unserved{"cluster", value(in.Cluster) != ""}); err != nil {
		return nil, err
	}
	var names []string
	for _, ref := range in.CapacityProviders {
		name, err := s.provider(ref)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	most, err := limit(in.MaxResults, max(describedProviders, len(names)))
	if err != nil {
		return nil, err
	}
	begin, err := after("DescribeCapacityProviders", in.NextToken)
	if err != nil {
		return nil, err
	}
	found, missing, err := s.scheduler.CapacityProviders(ctx, names)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b *cluster.CapacityProvider) int { return strings.Compare(a.Name, b.Name) })
	out := &ecs.DescribeCapacityProvidersOutput{}
	for _, p := range found {
		if p.Name <= begin {
			continue
		}
		if len(out.CapacityProviders) == most {
			out.NextToken = token("DescribeCapacityProviders", *out.CapacityProviders[most-1].Name)
			break
		}
		out.CapacityProviders = append(out.CapacityProviders, s.capacityProvider(p, slices.Contains(in.Include, types.CapacityProviderFieldTags)))
	}
	for _, f := range missing {
		out.Failures = append(out.Failures, types.Failure{Arn: new(s.account.ARN("capacity-provider", f.ARN)), Reason: text(f.Reason)})
	}
	return out, nil
}

// capacityProvider is a provider as the API shows it.
func (s *server) capacityProvider(p *cluster.CapacityProvider, tags bool) types.CapacityProvider {
	sc := p.Scaling
	out := types.CapacityProvider{
		CapacityProviderArn: new(s.account.ARN("capacity-provider", p.Name)), Name: &p.Name, Type: types.CapacityProviderTypeEc2Autoscaling,
		Status: types.CapacityProviderStatusActive, UpdateStatus: types.CapacityProviderUpdateStatus(p.UpdateStatus), UpdateStatusReason: text(p.UpdateReason),
		AutoScalingGroupProvider: &types.AutoScalingGroupProvider{
			AutoScalingGroupArn: &p.GroupARN,
			ManagedScaling: &types.ManagedScaling{
				Status: types.ManagedScalingStatus(onOff(sc.Enabled)), TargetCapacity: new(int32(sc.Target)),
				MinimumScalingStepSize: new(int32(sc.MinStep)), MaximumScalingStepSize: new(int32(sc.MaxStep)),
				InstanceWarmupPeriod: new(int32(sc.Warmup / time.Second)),
			},
			ManagedTerminationProtection: types.ManagedTerminationProtection(onOff(p.Protection)),
			ManagedDraining:              types.ManagedDraining(onOff(p.Draining)),
		},
	}
	switch {
	case p.Inactive:
		out.Status = types.CapacityProviderStatusInactive
	case p.CreateFailed(): // no cluster may have it
		out.Status = types.CapacityProviderStatusProvisioning
	}
	if tags {
		out.Tags = Tags(p.Tags)
	}
	return out
}

func onOff(on bool) string {
	if on {
		return "ENABLED"
	}
	return "DISABLED"
}

func (s *server) putClusterCapacityProviders(ctx context.Context, in *ecs.PutClusterCapacityProvidersInput) (*ecs.PutClusterCapacityProvidersOutput, error) {
	if err := required("cluster", in.Cluster); err != nil {
		return nil, err
	}
	name, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	switch {
	case in.CapacityProviders == nil:
		return nil, invalid("capacityProviders must be given; an empty list takes all away.")
	case in.DefaultCapacityProviderStrategy == nil:
		return nil, invalid("defaultCapacityProviderStrategy must be given; an empty list takes it away.")
	}
	names, strategy, err := s.clusterProviders(in.CapacityProviders, in.DefaultCapacityProviderStrategy)
	if err != nil {
		return nil, err
	}
	if _, err := s.scheduler.PutClusterProviders(ctx, name, names, strategy); err != nil {
		return nil, err
	}
	answer, err := s.describedCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	return &ecs.PutClusterCapacityProvidersOutput{Cluster: answer}, nil
}

// clusterProviders reads the capacity providers of a cluster and its default strategy.
func (s *server) clusterProviders(refs []string, items []types.CapacityProviderStrategyItem) (names []string, strategy []cluster.ProviderShare, err error) {
	if len(refs) > cluster.MaxProviders {
		return nil, nil, invalid("capacityProviders has %d items, but a cluster has at most %d.", len(refs), cluster.MaxProviders)
	}
	for _, ref := range refs {
		p, err := s.provider(ref)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(names, p) {
			return nil, nil, invalid("capacityProviders names capacity provider %s twice.", p)
		}
		names = append(names, p)
	}
	strategy, err = providers(items)
	return names, strategy, err
}

// createCluster has ECS make a cluster without the capacity providers that it does not know, and gives it these. One that was
// there with some keeps them, as ECS gives it back unchanged.
func (s *server) createCluster(ctx context.Context, body []byte) (any, error) {
	in := new(ecs.CreateClusterInput)
	if err := decode(body, in); err != nil {
		return nil, err
	}
	pass := passOn[ecs.CreateClusterInput]{"CreateCluster", s.checkCreateCluster, s.createdCluster}.operation(s)
	if len(in.CapacityProviders)+len(in.DefaultCapacityProviderStrategy) == 0 {
		return pass(ctx, body)
	}
	name, err := s.cluster(in.ClusterName)
	if err != nil {
		return nil, err
	}
	names, strategy, err := s.clusterProviders(in.CapacityProviders, in.DefaultCapacityProviderStrategy)
	if err != nil {
		return nil, err
	}
	if err := s.scheduler.CheckClusterProviders(ctx, name, names, strategy); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	delete(members, "capacityProviders")
	delete(members, "defaultCapacityProviderStrategy")
	if body, err = json.Marshal(members); err != nil {
		return nil, err
	}
	out, err := pass(ctx, body)
	answer, ok := out.(raw)
	if err != nil || !ok || answer.status != http.StatusOK {
		return out, err
	}
	a, err := s.scheduler.Attachments(ctx, name)
	if err == nil && a.Rev == 0 {
		_, err = s.scheduler.PutClusterProviders(ctx, name, names, strategy)
	}
	if err != nil {
		return nil, err
	}
	return s.withProviders(ctx, name, answer)
}

// withProviders puts a cluster's capacity providers into ECS's answer to CreateCluster.
func (s *server) withProviders(ctx context.Context, name string, answer raw) (any, error) {
	out := struct {
		Cluster map[string]json.RawMessage `json:"cluster"`
	}{map[string]json.RawMessage{}}
	if err := json.Unmarshal(answer.body, &out); err != nil {
		return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
	}
	if err := s.attached(ctx, name, out.Cluster); err != nil {
		return nil, err
	}
	body, err := json.Marshal(out)
	return raw{http.StatusOK, body}, err
}

// describedCluster is a cluster as DescribeClusters shows it.
func (s *server) describedCluster(ctx context.Context, name string) (*types.Cluster, error) {
	a, err := s.scheduler.Attachments(ctx, name)
	if err != nil {
		return nil, err
	}
	n, err := s.scheduler.ServiceCount(ctx, name)
	if err != nil {
		return nil, err
	}
	out := s.attachments(name, a)
	out.ClusterName, out.ClusterArn, out.Status = &name, new(s.account.ARN("cluster", name)), new("ACTIVE")
	out.ActiveServicesCount = int32(n)
	return &out, nil
}

// attachments are the parts of a cluster's description that its capacity providers make.
func (s *server) attachments(name string, a *cluster.ClusterAttachments) types.Cluster {
	out := types.Cluster{CapacityProviders: slices.Concat([]string{}, a.Providers), DefaultCapacityProviderStrategy: []types.CapacityProviderStrategyItem{}}
	for _, d := range a.Default {
		out.DefaultCapacityProviderStrategy = append(out.DefaultCapacityProviderStrategy, types.CapacityProviderStrategyItem{
			CapacityProvider: new(d.Provider), Base: int32(d.Base), Weight: int32(d.Weight),
		})
	}
	shown := map[string]bool{}
	add := func(kind, provider string, details ...types.KeyValuePair) {
		shown[provider] = true
		out.Attachments = append(out.Attachments, attachment(name, a, kind, provider, details))
	}
	for _, p := range a.Rows {
		if p.Scaling.Enabled && p.Scaling.TargetTracking { // otherwise Berth has alarms of its own
			add("as_policy", p.Name, detail("scalingPolicyName", cluster.ScalingPolicy(name, p.Name)))
		}
		if p.Draining {
			add("managed_draining", p.Name, detail("autoScalingLifecycleHookName", cluster.DrainingHook))
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(a.Failed)) {
		if !shown[provider] { // it has Berth's own alarms alone, or leaves the cluster
			add("capacity_provider", provider)
		}
	}
	if a.Status != "" {
		out.AttachmentsStatus = new(string(a.Status))
	}
	return out
}

// attachment is what managed scaling makes for one provider. One that failed says why.
func attachment(name string, a *cluster.ClusterAttachments, kind, provider string, details []types.KeyValuePair) types.Attachment {
	status, why := "CREATED", a.Failed[provider]
	details = slices.Concat([]types.KeyValuePair{detail("capacityProviderName", provider)}, details)
	switch {
	case a.Status == cluster.AttachmentsInProgress:
		status = "PRECREATED"
	case why != "":
		status, details = "FAILED", append(details, detail("statusReason", why))
	}
	return types.Attachment{Id: new(attachmentID(name, provider, kind)), Type: &kind, Status: &status, Details: details}
}

func detail(name, value string) types.KeyValuePair {
	return types.KeyValuePair{Name: &name, Value: &value}
}

func attachmentID(name, provider, kind string) string {
	d := cluster.Digest("attachment", name, provider, kind)
	return fmt.Sprintf("%s-%s-%s-%s-%s", d[:8], d[8:12], d[12:16], d[16:20], d[20:32])
}

// attached puts a cluster's capacity providers into what ECS, which has none, says of it.
func (s *server) attached(ctx context.Context, name string, c map[string]json.RawMessage) error {
	a, err := s.scheduler.Attachments(ctx, name)
	if err != nil || a.Rev == 0 {
		return err
	}
	of := s.attachments(name, a)
	body, err := Encode("DescribeClusters", &ecs.DescribeClustersOutput{Clusters: []types.Cluster{of}})
	if err != nil {
		return err
	}
	var out struct {
		Clusters []map[string]json.RawMessage `json:"clusters"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return err
	}
	for _, key := range []string{"capacityProviders", "defaultCapacityProviderStrategy", "attachments", "attachmentsStatus"} {
		if v, ok := out.Clusters[0][key]; ok {
			c[key] = v
		}
	}
	return nil
}

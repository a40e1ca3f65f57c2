package ecsapi

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/input"
)

// attachmentsShape returns the members of a cluster's description that its capacity providers
// contribute: names, default strategy, attachments and their status. Attachments are those that ECS
// shows, the scaling policy and the lifecycle hook; a provider with alarms of Berth's own has one
// only to show a failure.
func attachmentsShape(name string, a *operation.ClusterAttachments) types.Cluster {
	out := types.Cluster{CapacityProviders: slices.Concat([]string{}, a.Attached.Providers),
		DefaultCapacityProviderStrategy: providerShapes(a.Attached.Default)}
	// Providers that have an attachment in the list, so that failures of the others can be added.
	shown := map[string]bool{}
	add := func(kind, provider string, details ...types.KeyValuePair) {
		shown[provider] = true
		out.Attachments = append(out.Attachments, attachmentShape(name, a, kind, provider, details))
	}
	for _, p := range a.Rows {
		if p.Scaling.Enabled && p.Scaling.TargetTracking { // otherwise Berth has alarms of its own
			add("as_policy", p.Name, keyValue("scalingPolicyName", cluster.ScalingPolicy(name, p.Name)))
		}
		if p.Draining {
			add("managed_draining", p.Name, keyValue("autoScalingLifecycleHookName", cluster.DrainingHook))
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(a.Attached.AttachmentProblems)) {
		if !shown[provider] { // it has Berth's own alarms alone, or leaves the cluster
			add("capacity_provider", provider)
		}
	}
	if a.Attached.Status != "" {
		out.AttachmentsStatus = new(string(a.Attached.Status))
	}
	return out
}

// attachmentShape returns one attachment of a provider. kind is ECS's type of it: as_policy for a
// scaling policy, managed_draining for a lifecycle hook, capacity_provider for all the rest. Its
// status is PRECREATED while it is being made, then CREATED, or FAILED with the reason.
func attachmentShape(
	name string, a *operation.ClusterAttachments, kind, provider string, details []types.KeyValuePair,
) types.Attachment {
	status, why := "CREATED", a.Attached.AttachmentProblems[provider]
	details = slices.Concat([]types.KeyValuePair{keyValue("capacityProviderName", provider)}, details)
	switch {
	case a.Attached.Status == cluster.AttachmentsInProgress:
		status = "PRECREATED"
	case why != "":
		status, details = "FAILED", append(details, keyValue("statusReason", why))
	}
	return types.Attachment{Id: new(attachmentID(name, provider, kind)), Type: &kind, Status: &status, Details: details}
}

// keyValue returns a detail of an attachment.
func keyValue(name, value string) types.KeyValuePair {
	return types.KeyValuePair{Name: &name, Value: &value}
}

// attachmentID returns an attachment's id. It derives from what the attachment is for, so it is the
// same each time.
func attachmentID(name, provider, kind string) string {
	return formatUUID(cluster.Digest("attachment", name, provider, kind))
}

// parseClusterProviders reads a cluster's capacity providers, each named once, and its default
// strategy.
func parseClusterProviders(
	r input.References, refs []string, items []types.CapacityProviderStrategyItem,
) (names []string, strategy []cluster.ProviderShare, err error) {
	if len(refs) > cluster.MaxProviders {
		return nil, nil, input.Invalid("capacityProviders has %d items, but a cluster has at most %d.", len(refs),
			cluster.MaxProviders)
	}
	for _, ref := range refs {
		p, err := r.CapacityProviderName(ref)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(names, p) {
			return nil, nil, input.Invalid("capacityProviders names capacity provider %s twice.", p)
		}
		names = append(names, p)
	}
	strategy, err = parseDefaultStrategy(r, items)
	return names, strategy, err
}
